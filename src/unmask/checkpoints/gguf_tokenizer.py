"""The tokenizer that a GGUF file carries in its metadata, rebuilt with Hugging Face's library.

Three kinds occur: ``gpt2`` (byte-level BPE; a named rule cuts the text into words first), ``gemma4`` (BPE over
characters with ``▁`` for the space, unknown ones as bytes) and ``llama`` (SentencePiece: as ``gemma4``, but the order
of the merges follows from the tokens' scores).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, normalizers
from tokenizers.models import BPE

from unmask.checkpoints.byte_level import WORD_RULES, byte_level_tokenizer
from unmask.checkpoints.gguf_header import ArrayInfo, GgufHeader, read_array
from unmask.errors import InvalidCheckpointError
from unmask.shown import cut

# tokenizer.ggml.token_type. A byte's token is its name, as <0x0A>.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)

# The tokens that metadata name by id, and the names of those in tokenizer_config.json that Unmask reads.
_NAMED = ("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask")
_CONFIG_NAMES = {"bos": "bos_token", "eos": "eos_token", "padding": "pad_token", "mask": "mask_token"}

_LONGEST_TOKEN = 1024  # characters; all ways to cut a token in two are tried
_MOST_MERGES = 2**20  # twice as many as the largest vocabulary in use has
_MOST_CUTTING = 2**28  # characters copied by it; a vocabulary in use takes a tenth of that


def gguf_tokenizer(header: GgufHeader) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer of ``header``'s model, and what of a ``tokenizer_config.json`` goes with it.

    The latter has the texts ``bos_token``, ``eos_token``, ``pad_token``, ``mask_token`` and ``chat_template`` as far as
    the file names them, and the flag ``add_bos_token``. Raises ``InvalidCheckpointError``.
    """
    metadata = _Metadata(header)
    kind = metadata.text("tokenizer.ggml.model")
    if kind not in _KINDS:
        raise metadata.error(f"its kind {kind[:50]!r} is none of {', '.join(_KINDS)}")
    vocabulary = _vocabulary(metadata)
    try:
        tokenizer, begin = _KINDS[kind](metadata, vocabulary)
        tokenizer.add_special_tokens([_added(text, special=True) for text in vocabulary.special])
        tokenizer.add_tokens([_added(text, special=False) for text in vocabulary.user_defined])
    except InvalidCheckpointError:
        raise
    except Exception as error:  # the library knows no narrower one
        raise metadata.error(f"it cannot be rebuilt: {cut(error)}") from None
    config: dict[str, Any] = {
        name: vocabulary.tokens[vocabulary.named[key]] for key, name in _CONFIG_NAMES.items() if key in vocabulary.named
    }
    config["add_bos_token"] = metadata.flag("tokenizer.ggml.add_bos_token", begin)
    if "tokenizer.chat_template" in header.metadata:
        config["chat_template"] = metadata.text("tokenizer.chat_template")
    return tokenizer, config


class _Metadata:
    """The metadata's tokenizer keys, checked for their types."""

    def __init__(self, header: GgufHeader) -> None:
        self._header = header

    def error(self, fault: str) -> InvalidCheckpointError:
        return InvalidCheckpointError(
            f"The tokenizer in '{self._header.path}' cannot be used: {fault}.",
            hint="Convert the model again with a current converter, or serve the original model directory.",
        )

    def has(self, key: str) -> bool:
        return key in self._header.metadata

    def text(self, key: str) -> str:
        value = self._header.metadata.get(key)
        if not isinstance(value, str):
            raise self.error(f"'{key}' is {'not a text' if self.has(key) else 'missing'}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._header.metadata.get(key, default)
        if not isinstance(value, bool):
            raise self.error(f"'{key}' is not a flag")
        return value

    def token_id(self, key: str, tokens: list[str]) -> int:
        value = self._header.metadata[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(tokens):
            raise self.error(f"'{key}' is {value!s:.20}, not one of its {len(tokens)} tokens")
        return value

    def array(self, key: str, item_types: tuple[str, ...], count: int | None = None) -> list[Any]:
        info = self._header.metadata.get(key)
        if not isinstance(info, ArrayInfo) or info.item_type not in item_types:
            raise self.error(f"'{key}' is not an array of {' or '.join(item_types)}")
        if count not in (None, info.count):
            raise self.error(f"'{key}' has {info.count} items for {count} tokens")
        return read_array(self._header, key)


@dataclass(frozen=True, slots=True)
class _Vocabulary:
    """``tokens`` by id; ``ids`` of those with a meaning; ``plain`` ids of those that merges may lead to.

    Special tokens are never what text merges to: written by a user, ``</s>`` means these four characters.
    """

    tokens: list[str]
    ids: dict[str, int]
    plain: dict[str, int]
    special: list[str]
    user_defined: list[str]
    named: dict[str, int]


def _vocabulary(metadata: _Metadata) -> _Vocabulary:
    tokens: list[str] = metadata.array("tokenizer.ggml.tokens", ("str",))
    longest = max(map(len, tokens), default=0)
    if not tokens or longest > _LONGEST_TOKEN:
        raise metadata.error(f"a token has {longest} characters" if tokens else "it has no tokens")
    key = "tokenizer.ggml.token_type"
    types = metadata.array(key, ("i32", "u32"), len(tokens)) if metadata.has(key) else [_NORMAL] * len(tokens)
    keys = {name: f"tokenizer.ggml.{name}_token_id" for name in _NAMED}
    named = {name: metadata.token_id(key, tokens) for name, key in keys.items() if metadata.has(key)}
    special = {index for index, kind in enumerate(types) if kind in (_UNKNOWN, _CONTROL)} | set(named.values())
    # Unused ids have a placeholder for a text. Of two tokens with one text, the later is meant.
    ids = {text: index for index, text in enumerate(tokens) if text and (types[index] != _UNUSED or index in special)}
    return _Vocabulary(
        tokens,
        ids,
        plain={text: index for text, index in ids.items() if types[index] != _BYTE and index not in special},
        special=[text for text, index in ids.items() if index in special],
        user_defined=[text for text, index in ids.items() if types[index] == _USER_DEFINED and index not in special],
        named=named,
    )


def _byte_level(metadata: _Metadata, vocabulary: _Vocabulary) -> tuple[Tokenizer, bool]:
    rule = metadata.text("tokenizer.ggml.pre") if metadata.has("tokenizer.ggml.pre") else "default"
    if rule not in WORD_RULES:  # wrong words give wrong tokens and no error
        raise metadata.error(f"it cuts words by the rule {rule[:50]!r}; Unmask knows {', '.join(WORD_RULES)}")
    words = WORD_RULES[rule]
    return byte_level_tokenizer(vocabulary.ids, _merges(metadata, vocabulary), words), words.begin


def _gemma(metadata: _Metadata, vocabulary: _Vocabulary) -> tuple[Tokenizer, bool]:
    return _spaced(metadata, vocabulary, _merges(metadata, vocabulary), prefix=False), True


def _sentence_piece(metadata: _Metadata, vocabulary: _Vocabulary) -> tuple[Tokenizer, bool]:
    scores = metadata.array("tokenizer.ggml.scores", ("f32", "f64"), len(vocabulary.tokens))
    return _spaced(metadata, vocabulary, _merges_by_score(vocabulary, scores), prefix=True), True


# By tokenizer.ggml.model. Each gives the tokenizer and whether, where the file does not say, text begins with "bos".
_KINDS: dict[str, Callable[[_Metadata, _Vocabulary], tuple[Tokenizer, bool]]] = {
    "gpt2": _byte_level,
    "gemma4": _gemma,
    "llama": _sentence_piece,
}


def _spaced(metadata: _Metadata, vocabulary: _Vocabulary, merges: list[tuple[str, str]], *, prefix: bool) -> Tokenizer:
    """A tokenizer that writes the space as ``▁``, one put first if the file, or else ``prefix``, says so."""
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix", prefix)
    unknown = vocabulary.tokens[vocabulary.named["unknown"]] if "unknown" in vocabulary.named else None
    tokenizer = Tokenizer(BPE(vocabulary.ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    replace, back = normalizers.Replace(" ", "▁"), decoders.Replace("▁", " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence([back, decoders.ByteFallback(), decoders.Fuse(), *strip])
    return tokenizer


def _merges(metadata: _Metadata, vocabulary: _Vocabulary) -> list[tuple[str, str]]:
    merges, plain = [], vocabulary.plain
    for merge in metadata.array("tokenizer.ggml.merges", ("str",)):
        cut = merge.find(" ", 1)  # not at 0: the left half may begin with a space
        left, right = merge[:cut], merge[cut + 1 :]
        if cut < 0 or not right:
            raise metadata.error(f"{merge[:50]!r} is not a merge of two tokens")
        if left in plain and right in plain and left + right in plain:  # one that leads to no token is never made
            merges.append((left, right))
    return merges


def _merges_by_score(vocabulary: _Vocabulary, scores: list[float]) -> list[tuple[str, str]]:
    plain, tokens = vocabulary.plain, vocabulary.tokens
    if sum(len(text) ** 2 for text in plain) > _MOST_CUTTING:
        raise ValueError("its tokens are too long, too many of them, to be cut in all ways")
    halves = (
        (-scores[index], plain[text[:cut]], plain[text[cut:]])
        for text, index in plain.items()
        for cut in range(1, len(text))
        if text[:cut] in plain and text[cut:] in plain
    )
    ranked = sorted(islice(halves, _MOST_MERGES + 1))
    if len(ranked) > _MOST_MERGES:
        raise ValueError(f"its tokens can be put together in over {_MOST_MERGES} ways")
    return [(tokens[left], tokens[right]) for _, left, right in ranked]


def _added(text: str, *, special: bool) -> AddedToken:
    return AddedToken(text, special=special, normalized=False)

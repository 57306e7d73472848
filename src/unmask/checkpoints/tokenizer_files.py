"""What the tokenizer's files in a model directory say, without building a tokenizer. Bounded in time and memory.

The tokenizer is ``tokenizer.json`` or, where there is none, the pair ``vocab.json`` and ``merges.txt``, whose added
tokens are in ``added_tokens.json`` and in the ``added_tokens_decoder`` of ``tokenizer_config.json``.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from unmask.checkpoints.json_file import read_fields
from unmask.errors import InvalidCheckpointError
from unmask.shown import cut

VOCABULARY_PAIR = ("vocab.json", "merges.txt")
COPY_TOKENIZER = (
    "Copy tokenizer.json, or vocab.json and merges.txt with tokenizer_config.json and, if there is one, "
    "added_tokens.json, from where the model is published."
)

# The word rule (byte_level.WORD_RULES) of each tokenizer_class whose pair Unmask reads.
TOKENIZER_CLASSES = {
    **dict.fromkeys(("Qwen2Tokenizer", "Qwen2TokenizerFast", "DreamTokenizer"), "qwen2"),
    **dict.fromkeys(("GPT2Tokenizer", "GPT2TokenizerFast"), "gpt-2"),
}

# The largest vocabulary in use takes 33 MB and 2 million values, of which 6,400 added tokens take 1 MB.
_MOST_TOKENIZER = {"most_bytes": 48 * 2**20, "most_values": 2**22}
_MOST_ADDED_BYTES, _MOST_ADDED_TOKENS = 4 * 2**20, 2**15
_MOST_CONFIG = {"most_bytes": 4 * 2**20, "most_values": 2**16}

TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Entries = TypeVar("Entries")


class SavedToken(msgspec.Struct, frozen=True):
    """A token beside the vocabulary; the fields are those of ``tokenizers.AddedToken``."""

    content: str
    special: bool = False
    normalized: bool | None = None
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False


class _AddedToken(msgspec.Struct):
    content: str
    id: int


class _Tokenizer(msgspec.Struct):
    added_tokens: msgspec.Raw = msgspec.Raw(b"[]")


class _Token(msgspec.Struct):
    content: str = ""


class _Config(msgspec.Struct):
    tokenizer_class: str | None = None
    add_prefix_space: bool | None = None
    added_tokens_decoder: msgspec.Raw = msgspec.Raw(b"{}")
    mask_token: str | _Token | None = None
    chat_template: str | list[Any] | None = None


class TokenizerFiles:
    """The files in ``directory``; ``tokenizer_config.json`` is read when it is first needed, once.

    All methods raise ``InvalidCheckpointError`` for a file that is too large or malformed.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def has_tokenizer(self) -> bool:
        """Whether there is a tokenizer, in either form."""
        return self.has_tokenizer_json or all((self._directory / name).is_file() for name in VOCABULARY_PAIR)

    @property
    def has_tokenizer_json(self) -> bool:
        """Whether there is a ``tokenizer.json``, which is then the tokenizer."""
        return (self._directory / "tokenizer.json").is_file()

    @property
    def has_chat_template(self) -> bool:
        """Whether there is a chat template, in a file of its own or in ``tokenizer_config.json``."""
        return (self._directory / "chat_template.jinja").is_file() or bool(self._config.chat_template)

    @property
    def mask_token(self) -> str:
        """The text of the tokenizer's mask token; '' if ``tokenizer_config.json`` names none."""
        token = self._config.mask_token
        return (token.content if isinstance(token, _Token) else token) or ""

    def added_tokens(self) -> dict[str, int]:
        """Ids of the tokens that the tokenizer has beside its vocabulary, by their text; none without a tokenizer."""
        file = self._directory / "tokenizer.json"
        if not os.path.lexists(file):
            return {token.content: index for index, token in self.saved_tokens().items()}
        tokens = read_fields(file, _Tokenizer, **_MOST_TOKENIZER).added_tokens
        return {token.content: token.id for token in _entries(file, tokens, list[_AddedToken])}

    def saved_tokens(self) -> dict[int, SavedToken]:
        """The tokens that ``vocab.json`` is to be completed with, by id; ``tokenizer_config.json`` has the last word.

        A file that gives an id twice is refused too.
        """
        config_file = self._directory / "tokenizer_config.json"
        said = _entries(config_file, self._config.added_tokens_decoder, dict[TokenId, SavedToken])
        texts = {token.content for token in said.values()}
        file = self._directory / "added_tokens.json"
        ids = read_fields(file, dict[str, TokenId], most_bytes=_MOST_ADDED_BYTES, most_values=_MOST_ADDED_TOKENS)
        others = {index: SavedToken(text) for text, index in ids.items() if text not in texts}
        if len(others) < len(ids.keys() - texts):
            raise InvalidCheckpointError(f"'{file}' gives two tokens the same id.", hint="Copy the file again.")
        if len(texts) < len(said):
            raise InvalidCheckpointError(f"'{config_file}' gives a token two ids.", hint="Copy the file again.")
        return others | said

    def word_rule(self) -> str:
        """The name of the rule that cuts words for the pair, from ``tokenizer_class``.

        A class that is not known is refused: wrong words give wrong tokens and no error.
        """
        config = self._config
        rule = TOKENIZER_CLASSES.get(config.tokenizer_class or "")
        if rule is not None and not (rule == "gpt-2" and config.add_prefix_space):
            return rule
        named = (
            f"the tokenizer_class {config.tokenizer_class[:50]!r}" if config.tokenizer_class else "no tokenizer_class"
        )
        raise InvalidCheckpointError(
            f"'{self._directory}' has no tokenizer.json, and its tokenizer_config.json names {named}"
            f"{' with add_prefix_space' if rule else ''}; Unmask reads the vocab.json and merges.txt of "
            f"{', '.join(TOKENIZER_CLASSES)} only.",
            hint="Save the tokenizer as tokenizer.json with transformers: "
            "AutoTokenizer.from_pretrained('MODEL').save_pretrained('DIRECTORY').",
        )

    @cached_property
    def _config(self) -> _Config:
        return read_fields(self._directory / "tokenizer_config.json", _Config, **_MOST_CONFIG)


def _entries(file: Path, tokens: msgspec.Raw, kind: type[Entries]) -> Entries:
    size = memoryview(tokens).nbytes
    if size > _MOST_ADDED_BYTES or bytes(tokens).count(b"{") > _MOST_ADDED_TOKENS:
        raise InvalidCheckpointError(
            f"'{file}' adds over {_MOST_ADDED_TOKENS} tokens.", hint="Is it what its name says?"
        )
    try:
        return msgspec.json.decode(tokens, type=kind)
    except ValueError as error:
        raise InvalidCheckpointError(
            f"'{file}': its added tokens are malformed: {cut(error)}.", hint="Copy the file again."
        ) from None

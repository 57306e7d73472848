"""Byte-level BPE: tokens are pieces of UTF-8, and a rule cuts text into words that no token crosses."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class WordRule:
    """How text is cut into words that merges do not cross: ``patterns``, each applied to the pieces of the one before.

    ``whole`` words that are tokens stay whole whatever the merges say. ``begin``: text begins with the token "bos"
    where the model does not say.
    """

    patterns: tuple[str, ...]
    nfc: bool = False
    whole: bool = False
    begin: bool = False


# By the names that GGUF files have for them (tokenizer.ggml.pre).
WORD_RULES = {
    "default": WordRule((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "gpt-2": WordRule((_GPT2,)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), WordRule((_LLAMA3,), whole=True, begin=True)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), WordRule((_QWEN2,), nfc=True)),
    **dict.fromkeys(("bailingmoe", "bailingmoe2", "llada-moe"), WordRule((_BAILING,))),
}


def byte_level_tokenizer(vocabulary: dict[str, int], merges: list[tuple[str, str]], rule: WordRule) -> Tokenizer:
    """A tokenizer of these tokens, without special ones."""
    tokenizer = Tokenizer(BPE(vocabulary, merges, ignore_merges=rule.whole))
    if rule.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def byte_of_symbol() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for: printable ones for themselves, the others, in
    order, for the characters from U+0100 on (GPT-2).
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    symbols = {chr(byte): byte for byte in printable}
    return symbols | {chr(0x100 + number): byte for number, byte in enumerate(others)}

"""Random tokens put together: what a model writes that has nothing to say."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.gguf_files import byte_symbol
from unmask.checkpoints.gguf_header import read_array, read_gguf_header

_BYTES = {byte_symbol(byte): byte for byte in range(256)}


def gguf_spellings(file: Path) -> list[bytes]:
    """The bytes of each token of a byte-level vocabulary, special tokens left out."""
    header = read_gguf_header(file)
    tokens = read_array(header, "tokenizer.ggml.tokens")
    kinds = read_array(header, "tokenizer.ggml.token_type")
    return [bytes(_BYTES[symbol] for symbol in token) for token, kind in zip(tokens, kinds, strict=True) if kind == 1]


def random_texts(spellings: list[bytes], length: int, count: int, seed: int = 0) -> list[str]:
    """``count`` texts of ``length`` tokens each, all of them as likely."""
    chance = random.Random(seed)
    return [b"".join(chance.choices(spellings, k=length)).decode(errors="replace") for _ in range(count)]


def caught(texts: list[str], symptom: Callable[[str], object]) -> float:
    """The share of ``texts`` that shows ``symptom``."""
    return sum(bool(symptom(text)) for text in texts) / len(texts)

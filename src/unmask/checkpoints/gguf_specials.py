"""The special tokens of a GGUF file, found without building its tokenizer."""

from __future__ import annotations

from typing import Any

from unmask.checkpoints.gguf_header import ArrayInfo, GgufHeader, read_array, read_texts

_CONTROL = 3  # the type of tokens that stand for no text
_TYPES, _TOKENS = "tokenizer.ggml.token_type", "tokenizer.ggml.tokens"


def special_tokens(header: GgufHeader) -> dict[str, int]:
    """Ids of the tokens that stand for no text, by their names; empty if the file has no tokenizer.

    Raises ``GgufError`` for arrays that cannot be read.
    """
    if not all(isinstance(header.metadata.get(key), ArrayInfo) for key in (_TYPES, _TOKENS)):
        return {}
    special = _places_of(_CONTROL, read_array(header, _TYPES))
    return dict(zip(read_texts(header, _TOKENS, special), special, strict=True))


def _places_of(value: int, items: list[Any]) -> list[int]:
    """Where ``value`` stands in ``items``: a few places among hundreds of thousands."""
    places: list[int] = []
    for _ in range(items.count(value)):
        places.append(items.index(value, places[-1] + 1 if places else 0))
    return places

"""What each token of a tokenizer adds to a text, in bytes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers

from unmask.errors import UnsupportedValueError

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenBytes:
    """``ids``: the tokens that spell each piece of text, special and end tokens left out; a few have no text at all.

    ``begin``: what the decoder drops from the beginning of a text, so that it must be there.
    """

    def __init__(self, tokenizer: Tokenizer, excluded: frozenset[int]) -> None:
        """The tokens of ``tokenizer`` but ``excluded``. Raises ``UnsupportedValueError`` if it decodes otherwise."""
        steps = _steps(json.loads(tokenizer.decoder.__getstate__()) if tokenizer.decoder is not None else None)
        added = tokenizer.get_added_tokens_decoder()
        ids = defaultdict(list)
        for token, index in tokenizer.get_vocab(with_added_tokens=True).items():
            if index in excluded or (index in added and added[index].special):
                continue
            piece = token.encode() if index in added else _spelled(token, steps)
            if piece:
                ids[piece].append(index)
        self.ids: dict[bytes, list[int]] = dict(ids)
        self.begin = next((step["content"] * step["start"] for step in steps if step["type"] == "Strip"), "")


def _steps(decoder: Any) -> list[dict[str, Any]]:
    """The steps of a decoder whose text is that of its tokens put together."""
    steps = decoder["decoders"] if decoder is not None and decoder["type"] == "Sequence" else [decoder]
    for step in steps:
        kind = "None" if step is None else step["type"]
        known = kind in ("ByteLevel", "ByteFallback", "Fuse") or (
            (kind == "Replace" and "String" in step["pattern"]) or (kind == "Strip" and not step["stop"])
        )
        if not known:
            raise UnsupportedValueError(
                f"This model's tokenizer puts texts together by '{kind}', which constraints do not know.",
                hint="Leave the constraint out.",
            )
    return steps


def _spelled(token: str, steps: list[dict[str, Any]]) -> bytes:
    text = token
    for step in steps:
        match step["type"]:
            case "ByteLevel":
                known = all(character in _LEVELS for character in text)
                return bytes(_LEVELS[character] for character in text) if known else text.encode()
            case "Replace":
                text = text.replace(step["pattern"]["String"], step["content"])
            case "ByteFallback":
                found = _BYTE.fullmatch(text)
                if found is not None:
                    return bytes([int(found.group(1), 16)])
    return text.encode()


def _levels() -> dict[str, int]:
    """Byte-level BPE's alphabet: printable bytes stand for themselves, the others for the characters from 256 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    levels = {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}
    assert set(levels) == set(pre_tokenizers.ByteLevel.alphabet())
    return levels


_LEVELS = _levels()

"""The alphabets that letters belong to, by the names that Unicode gives them."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Japanese writes with several at once, and full-width letters stand among them.
_TOGETHER = dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "BOPOMOFO"), "CJK")
# Those whose names say how they look, not where they are from.
_OF_NONE = ("FULLWIDTH", "HALFWIDTH", "MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER", "MICRO", "MODIFIER")
_NO_TEXT = ("Cc", "Cn", "Co", "Cs")  # control characters, unassigned, private, and halves
_LAYOUT = "\t\n\r"


@lru_cache(maxsize=2**16)
def alphabet(character: str) -> str:
    """In Unicode's words: "LATIN", "ARABIC", "CJK" (kana too), ...; "" for what is no letter, or one of no alphabet."""
    if not character.isalpha():
        return ""
    name = unicodedata.name(character, "").partition(" ")[0]
    return "" if name in _OF_NONE else _TOGETHER.get(name, name)


@lru_cache(maxsize=2**16)
def is_junk(character: str) -> bool:
    """Whether it is no part of any text: what stands for bytes that are none, or has no meaning."""
    return character == "\ufffd" or (character not in _LAYOUT and unicodedata.category(character) in _NO_TEXT)

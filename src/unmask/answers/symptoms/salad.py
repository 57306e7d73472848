"""Token salad: text that no one writes, told by its characters alone, in any language.

What is told is broken: bytes that are no text, alphabets that take turns within a word or in each line, and Latin words
that begin and end anywhere. Fluent nonsense is not.
"""

from __future__ import annotations

import re
from collections import Counter

from unmask.answers.symptoms.alphabets import alphabet, is_junk
from unmask.answers.symptoms.common_words import COMMON_WORDS

_WINDOW = 4096  # characters that are looked at
_FEWEST_WORDS = 8
_FEWEST_LONG = 12
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)|[^\W\d_]{1,2}\d+|\d+[^\W\d_]{1,2}")  # 1st, x2, 5km
_PAUSE = re.compile(r"[,;:.|\n]")
_CAPITAL_WITHIN = re.compile(r"[a-zß-öø-ÿ][A-ZÀ-ÖØ-Þ]")
_MUTE = re.compile(r"(?i)[bcdfghjklmnpqstvwxz]{4,}")  # all of a word; "prst" and "smrt" are words of Slavic languages
# Alphabets that stand next to Latin letters without a space: "API를", "Pythonの".
_NEIGHBOURS = frozenset(("CJK", "HANGUL", "THAI", "LAO", "KHMER", "MYANMAR"))


def salad(text: str) -> str:
    """What makes ``text`` no text, or "". A text of a few words is left alone, unless its characters are none."""
    text = text[:_WINDOW].rstrip("\ufffd")  # an answer may be cut within a character
    junk = sum(map(is_junk, text))
    if junk >= 2 and junk * 50 >= len(text):
        return f"{junk} of {len(text)} characters are part of no text"
    words = _WORD.findall(text)
    alphabets = Counter(filter(None, map(alphabet, text)))
    if len(used := [name for name, count in alphabets.items() if count > 1]) >= 4:
        return f"{len(used)} alphabets are mixed"
    mixed = sum(map(_is_mixed, words))
    if mixed >= 2 and mixed * 20 >= len(words):
        return f"{mixed} of {len(words)} words are of two alphabets"
    if alphabets["LATIN"] * 2 > alphabets.total():
        return _broken(text, words)
    return ""


def _is_mixed(word: str) -> bool:
    """Whether two alphabets meet in ``word`` that do in no language. Formulas have a Greek letter beside others."""
    found = set(filter(None, map(alphabet, word))) - _NEIGHBOURS
    return len(found) > 1 and not ("GREEK" in found and len(word) <= 3)


def _broken(text: str, words: list[str]) -> str:
    """The same for ``text`` in Latin letters: none of the words that everybody needs and hardly a comma, and then
    either many words that are none, or long ones throughout.

    Measured on 41,205 translated messages of programs in 139 languages: 2 in 1000 are called so. Of random tokens of
    SmolLM2's vocabulary, 48 in a row, it is 98 in 100.
    """
    lettered = _LETTERS.findall(text)
    common = sum(word.lower() in COMMON_WORDS for word in lettered)
    listed = len(_PAUSE.findall(text)) * 4 >= len(lettered)
    if len(lettered) < _FEWEST_WORDS or common * 12 >= len(lettered) or listed:
        return ""
    odd = sum(map(_is_odd, words))
    if odd >= 2 and odd * 12 >= len(words):
        return f"{odd} of {len(words)} words are broken, and {common} are common ones"
    if len(lettered) >= _FEWEST_LONG and sum(map(len, lettered)) >= 7 * len(lettered):
        return f"{len(lettered)} long words stand together, of which {common} are common ones"
    return ""


def _is_odd(word: str) -> bool:
    if any(map(str.isdigit, word)):
        return not word.isdigit() and _ORDINAL.fullmatch(word) is None
    return _CAPITAL_WITHIN.search(word) is not None or _MUTE.fullmatch(word) is not None

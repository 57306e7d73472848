"""Text that has run into a loop."""

from __future__ import annotations

import re

_WINDOW = 512  # characters at the end of a text: a model that loops goes on with it
_LOOP = re.compile(r"(?s)(.{1,64}?)\1{3,}")  # four times the same
_PIECE = 8


def loops(text: str, least: int) -> bool:
    """Whether the end of ``text`` holds a run of at least ``least`` characters in which up to 64 come four times or
    more. Rules and rows of dots are no loops, unless there is hardly anything else.
    """
    end = text[-_WINDOW:]
    if not _may_loop(end, least):
        return False
    for found in _LOOP.finditer(end):
        length = found.end() - found.start()
        said = any(character.isalnum() for character in found.group(1))
        if length >= least and (said or (not found.group(1).isspace() and length * 4 >= len(end) * 3)):
            return True
    return False


def _may_loop(text: str, least: int) -> bool:
    """Whether pieces of ``text`` come twice as often as in a loop of ``least`` characters: most texts need no search.

    A run of n characters has n - 7 pieces of 8 characters, and as a loop no more than n / 4 different ones.
    """
    pieces = [text[at : at + _PIECE] for at in range(len(text) - _PIECE + 1)]
    return len(pieces) - len(set(pieces)) >= least - (_PIECE - 1) - least // 4

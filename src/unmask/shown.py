"""Values of users and files as messages show them: never long, and nothing that a terminal would obey."""

from __future__ import annotations

import reprlib

_MOST = 200
_MOST_BITS = 512  # an integer of thousands of digits cannot even be written out: Python refuses


class _Short(reprlib.Repr):
    """Looks no further into a value than a message may get long."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = _MOST // 4
        self.maxstring = self.maxother = self.maxlong = _MOST

    def repr_int(self, value: int, level: int) -> str:
        """Its digits, or how large it is."""
        if value.bit_length() > _MOST_BITS:
            return f"<an integer of {value.bit_length()} bits>"
        return super().repr_int(value, level)


def shown(value: object) -> str:
    """The ``repr`` of ``value``, cut to about 200 characters; values within values may be left out, as ``...``."""
    return cut(_Short().repr(value))


def cut(words: object) -> str:
    """What ``words`` say, of a library's error for one, but no more than about 200 characters of it."""
    text = str(words)
    return text if len(text) <= _MOST + 3 else f"{text[:_MOST]}..."


def printable(text: str) -> str:
    """``text`` on one line, with control characters, and what is not text at all, escaped."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)

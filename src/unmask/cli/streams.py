"""The three standard streams, of which a shell may have closed any."""

from __future__ import annotations

import io
import os
import sys

_STREAMS = (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w"))


def complete_streams() -> None:
    """Open the null device for each stream that is closed: else the next file or socket would take its number.

    As standard output it is opened for reading, so that an answer written there fails instead of being lost.
    Input that is not UTF-8 comes as lone surrogates, which ``is_text`` finds.
    """
    for number, (name, flags, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(_null(number, flags), mode))
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")


def is_text(words: str) -> bool:
    """Whether ``words`` came from valid UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in words)


def _null(number: int, flags: int) -> int:
    """The null device as file descriptor ``number``."""
    null = os.open(os.devnull, flags)
    if null != number:
        os.dup2(null, number)
        os.close(null)
    os.set_inheritable(number, True)
    return number

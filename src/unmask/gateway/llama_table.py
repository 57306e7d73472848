"""The architectures that a build of llama.cpp knows, read from its files: nothing is run.

A table of names stands in each build, each a string that ends with a zero byte, and after the last of them
"(unknown)". Linkers leave their order, but store a string only once: a name that ends another string, or stood in an
earlier part of the program, is missing from the run of names before "(unknown)". The names of released llama.cpp are
therefore looked for nearby too.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unmask.gateway.mainline import LOADED_NOT_SERVED, MAINLINE

_END = b"\0(unknown)\0"
_NAME = re.compile(rb"[a-z][a-z0-9_-]{0,31}")
_FIRST = b"llama"  # of the table, but for "clip"
_LONGEST_RUN = 2**16  # bytes
_NEARBY = 2**22  # bytes; constants of one program are together
_LEAST = 8  # names of released llama.cpp that make a run of words its table
_LEAST_ALONE = 32  # the same where there is no run


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """The bytes of a file, read as they are looked at. Raises ``OSError``, or ``ValueError`` if there are none."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        yield memory


def architectures_in(path: Path) -> frozenset[str]:
    """The names in the table of the program or library at ``path``; empty if it has none. Raises as ``mapped``."""
    with mapped(path) as memory:
        at, seen = -1, False
        while (at := memory.find(_END, at + 1)) >= 0:
            run = _run_before(memory, at)
            if len(run & MAINLINE) >= _LEAST:
                return run | _nearby(memory, at, MAINLINE - run)
            seen = True
        return _scattered(memory) if seen else frozenset()


def _run_before(memory: mmap.mmap, end: int) -> frozenset[str]:
    """The names that stand before ``end``, one after the other; other words may stand before them."""
    found: list[str] = []
    words = memory[max(0, end - _LONGEST_RUN) : end].split(b"\0")
    for word in reversed(words[1:]):  # the first may have lost its beginning
        if word and not _NAME.fullmatch(word):
            break
        found.append(word.decode())
        if word == _FIRST:
            break
    return frozenset(filter(None, found))


def _nearby(memory: mmap.mmap, at: int, names: frozenset[str]) -> frozenset[str]:
    """Those of ``names`` that are a string, or end one."""
    begin, end = max(0, at - _NEARBY), at + _NEARBY
    return frozenset(name for name in names if memory.find(f"{name}\0".encode(), begin, end) >= 0)


def _scattered(memory: mmap.mmap) -> frozenset[str]:
    """The names that are known here, of a program whose linker put them anywhere."""
    names = MAINLINE | LOADED_NOT_SERVED
    found = frozenset(name for name in names if memory.find(f"\0{name}\0".encode()) >= 0)
    return found if len(found) >= _LEAST_ALONE else frozenset()

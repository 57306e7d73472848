"""Which line of a tool's output tells why it failed: the first error, not those that it brought about."""

from __future__ import annotations

import re
from collections import deque

_ERROR = re.compile(r": (?:fatal )?error: |undefined reference to|cannot find -l")  # of compilers, linkers and Ninja
_CMAKE = "CMake Error"
_SUMMARY = "Configuring incomplete"  # which CMake ends with
_TAIL = 200


class ToolWords:
    """Sees lines as they go by."""

    def __init__(self) -> None:
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._first = ""
        self._place = ""  # which CMake tells, and in the next line what is wrong there

    def see(self, line: str) -> None:
        """Remember ``line`` if it tells something."""
        if line.strip() and not line.startswith(f"-- {_SUMMARY}"):
            self._tail.append(line)
        if self._first or not line.strip():
            return
        if self._place:
            self._first = f"{self._place} {line.strip()}"
        elif line.startswith(_CMAKE) and line.endswith(":"):
            self._place = line
        elif line.startswith(_CMAKE) or _ERROR.search(line):
            self._first = line

    def best(self) -> str:
        """The first error, else the last line that speaks of one, else the last."""
        last = self._tail[-1] if self._tail else "nothing"
        return self._first or next((line for line in reversed(self._tail) if "error" in line.lower()), last)

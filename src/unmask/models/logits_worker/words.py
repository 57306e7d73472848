"""What a process writes on its standard error: passed on, and the end of it kept, to tell why it died."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from contextlib import suppress

from unmask.shown import cut, printable

_KEPT_LINES = 50
_LINE_BYTES = 4096
_TELLING = re.compile(r"(?i)error|fail|assert|abort|terminate|exception|out of memory|cannot")


class Words(threading.Thread):
    """Reads ``source``, a descriptor that it closes, until all who write there have ended."""

    def __init__(self, source: int) -> None:
        super().__init__(name="unmask-logits-words", daemon=True)
        self._source = source
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.start()

    def run(self) -> None:
        """Pass on what comes, byte by byte as it is."""
        with os.fdopen(self._source, "rb") as source:
            while line := source.readline(_LINE_BYTES):
                self._lines.append(line.decode(errors="replace").strip())
                with suppress(OSError, ValueError):  # nobody may be there to read it
                    os.write(sys.__stderr__.fileno() if sys.__stderr__ is not None else 2, line)

    def telling(self) -> str:
        """The last line that sounds like a reason, else the last one, else ''."""
        lines = [line for line in reversed(list(self._lines)) if line]
        return printable(cut(next(filter(_TELLING.search, lines), lines[0] if lines else "")))

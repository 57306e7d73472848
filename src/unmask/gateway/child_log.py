"""What a child writes on its standard output and error, read by a thread of its own: nobody ever waits for it."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator

from unmask.gateway.keeper import NOTE
from unmask.gateway.log_file import LogFile
from unmask.gateway.telling import Clues
from unmask.shown import printable

TAIL_LINES = 200
LINE_BYTES = 4096
_CHUNK = 2**16


class ChildLog:
    """Reads ``source``, a file descriptor that it closes, until all who write there have ended.

    Each line goes to ``file``, to the last ``TAIL_LINES`` in memory, and past the ``clues``. A line has ``LINE_BYTES``
    at most, the rest of it is dropped; control characters are escaped, and what is no UTF-8 is replaced.
    """

    def __init__(self, source: int, file: LogFile) -> None:
        self.file = file
        self.clues = Clues()
        self._source = source
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="unmask-child-log", daemon=True)
        self._thread.start()

    def tail(self, lines: int = TAIL_LINES) -> list[str]:
        """The last ``lines``, the newest one at the end."""
        with self._lock:
            return list(self._tail)[-lines:]

    def telling_line(self) -> str:
        """The line that tells most, else the last one of the child's own, else ""."""
        own = (line for line in reversed(self.tail()) if not line.startswith(NOTE))
        return self.clues.best() or next(own, "")

    def note(self, words: str) -> None:
        """Add a line of our own."""
        self._keep(NOTE + printable(words))

    def join(self, seconds: float) -> None:
        """Wait until all is read, but no longer than that: a process that escaped its keeper may hold the pipe."""
        self._thread.join(seconds)

    def close(self, seconds: float) -> None:
        """The same, then let go of the file."""
        self.join(seconds)
        with self._lock:
            self.file.close()

    def _read(self) -> None:
        cutter = LineCutter()
        try:
            while chunk := os.read(self._source, _CHUNK):
                for line in cutter.feed(chunk):
                    self._keep(_readable(line))
            if rest := cutter.rest():
                self._keep(_readable(rest))
        finally:
            os.close(self._source)

    def _keep(self, line: str) -> None:
        with self._lock:
            self._tail.append(line)
            self.clues.see(line)
            self.file.write(line.encode())


def _readable(line: bytes) -> str:
    text = line.decode(errors="replace")
    return text if text.isprintable() else printable(text)


class LineCutter:
    """Cuts bytes into lines; of a line that is longer than ``limit`` only its beginning is kept, and marked."""

    def __init__(self, limit: int = LINE_BYTES) -> None:
        self._limit = limit
        self._begun = bytearray()
        self._overlong = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that ``chunk`` completes."""
        *complete, begun = chunk.split(b"\n")
        for part in complete:
            self._extend(part)
            yield self.rest().removesuffix(b"\r")
        self._extend(begun)

    def _extend(self, part: bytes) -> None:
        room = self._limit - len(self._begun)
        self._begun += part[:room]
        self._overlong = self._overlong or len(part) > room

    def rest(self) -> bytes:
        """The line that was begun, which is begun anew afterwards."""
        line = bytes(self._begun) + b"..." * self._overlong
        self._begun.clear()
        self._overlong = False
        return line

"""The newest lines of a log on disk, within a bound. Losing lines is better than failing, and is counted."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class LogFile:
    """Appends lines to ``path``, which once it has ``half_bytes`` takes the place of ``path`` with ``.1`` added.

    A disk that is full, or a folder that is gone, costs lines, never an exception: ``lost`` counts them.
    """

    def __init__(self, path: Path, half_bytes: int = 2**20) -> None:
        self.path = path
        self.lost = 0
        self._half = half_bytes
        self._descriptor: int | None = None
        self._size = 0
        self._torn = False  # the last line was written in part: the disk became full within it

    def write(self, line: bytes) -> None:
        """Append ``line``, which has no line end yet."""
        data = (b"\n" if self._torn else b"") + line + b"\n"
        try:
            written = os.write(self._opened(len(data)), data)
        except OSError:
            self.lost += 1
            return
        self._size += written
        self._torn = written < len(data)
        self.lost += self._torn

    def _opened(self, coming: int) -> int:
        if self._descriptor is not None and self._size + coming > self._half:
            self.close()
            os.replace(self.path, f"{self.path}.1")
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._size = os.fstat(self._descriptor).st_size
        return self._descriptor

    def close(self) -> None:
        """Let go of the file; a further line opens it again."""
        if self._descriptor is not None:
            with suppress(OSError):  # some file systems tell only now that they are full
                os.close(self._descriptor)
            self._descriptor = None

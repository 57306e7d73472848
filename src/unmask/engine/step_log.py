"""The step log: a file to which an engine writes what each of its steps held and how long it took, never what it said.

One JSON object a line. The first that an engine writes says what is measured where (``Origin``), each further one is a
``StepRecord``. ``unmask simulate --from-steps`` reads it.
"""

from __future__ import annotations

import sys
from io import FileIO
from pathlib import Path

import msgspec

from unmask.engine.step_meter import StepMeter
from unmask.engine.step_records import Origin, StepRecord
from unmask.errors import InvalidValueError
from unmask.shown import shown

_MOST_LINES = 500  # in memory, some 64 KiB


def open_step_log(path: str) -> FileIO:
    """The file ``path`` to write on at its end. Raises ``InvalidValueError`` if that cannot be done."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # a pipe could make the engine wait for its reader
            raise OSError(None, "not a regular file")
        return FileIO(path, "a")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InvalidValueError(
            f"The step log {shown(path)} cannot be written: {reason}.",
            hint="Name a file in a directory that exists and may be written.",
            param="step_log",
        ) from None


class StepLog(StepMeter):
    """Writes a line for each step to ``file``: when the engine has nothing left to do, and when there are many.

    Where no more can be written the engine goes on without.
    """

    def __init__(self, file: FileIO, origin: Origin) -> None:
        super().__init__(self._add)
        self._file = file
        self._encoder = msgspec.json.Encoder()
        self._lines = [self._encoder.encode(origin)]
        self._write()

    def end(self, *, idle: bool) -> None:
        """Note it."""
        super().end(idle=idle)
        if idle:
            self._write()

    def close(self) -> None:
        """Write what is left."""
        self._write()
        self._file.close()

    def _add(self, record: StepRecord) -> None:
        self._lines.append(self._encoder.encode(record))
        if len(self._lines) >= _MOST_LINES:
            self._write()

    def _write(self) -> None:
        left = b"".join(line + b"\n" for line in self._lines)
        self._lines.clear()
        if self._file.closed:
            return
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            print(f"The step log {shown(self._file.name)} ends here: {error.strerror}.", file=sys.stderr, flush=True)
            self._file.close()

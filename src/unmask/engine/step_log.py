"""The step log: a file to which an engine writes what each of its steps held and how long it took, never what it said.

One JSON object a line. The first of a file, and of each engine that writes to it, says what is measured where
(``Origin``), each further one is a ``StepRecord``. ``unmask simulate --from-steps`` reads it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec

from unmask.engine.step_meter import StepMeter
from unmask.engine.step_records import Origin, StepRecord
from unmask.errors import InvalidValueError
from unmask.shown import shown

_MOST_LINES = 500  # in memory, some 64 KiB
_MOST_SECONDS = 1.0  # for which they stay there: of an engine that is ended in a long step they must not be lost


def check_step_log(path: str) -> None:
    """Raises ``InvalidValueError`` if no step log can be written to ``path``."""
    try:
        if Path(path).exists() and not Path(path).is_file():  # a pipe could make the engine wait for its reader
            raise OSError(None, "not a regular file")
        with open(path, "ab"):
            pass
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise InvalidValueError(
            f"The step log {shown(path)} cannot be written: {reason}.",
            hint="Name a file in a directory that exists and may be written.",
            param="step_log",
        ) from None


class StepLog(StepMeter):
    """Adds a line for each step to the file ``path``: when the engine has nothing left to do, when there are many, and
    each second.

    The file is opened each time, so it may be moved away at any time; a new one begins with the origin. Where no more
    can be written the engine goes on without.
    """

    def __init__(self, path: str, origin: Origin) -> None:
        super().__init__(self._add)
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._origin = self._encoder.encode(origin) + b"\n"
        self._lines = [self._origin]
        self._ends = False
        self._due = 0.0
        self._write()

    def end(self, *, idle: bool) -> None:
        """Note it."""
        super().end(idle=idle)
        if idle:
            self._write()

    def close(self) -> None:
        """Write what is left."""
        self._write()

    def _add(self, record: StepRecord) -> None:
        self._lines.append(self._encoder.encode(record) + b"\n")
        if len(self._lines) >= _MOST_LINES or time.monotonic() >= self._due:
            self._write()

    def _write(self) -> None:
        self._due = time.monotonic() + _MOST_SECONDS
        lines, self._lines = self._lines, []
        if self._ends or not lines:
            return
        try:
            with open(self._path, "ab") as file:
                if file.tell() == 0 and lines[0] is not self._origin:
                    file.write(self._origin)
                file.writelines(lines)
        except OSError as error:
            print(f"The step log {shown(self._path)} ends here: {error.strerror}.", file=sys.stderr, flush=True)
            self._ends = True

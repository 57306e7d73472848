"""Opening files of a checkpoint, whose names may stand for anything."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from unmask.errors import InvalidCheckpointError


def open_regular(path: Path) -> BinaryIO:
    """The file ``path``, open for reading: no directory, and no pipe or device, which could be read for ever.

    Raises ``InvalidCheckpointError`` for such, and ``OSError`` for a file that is missing or cannot be opened.
    """
    if path.exists() and not path.is_file():
        raise InvalidCheckpointError(f"'{path}' is not a regular file.", hint="Copy the checkpoint again.")
    return path.open("rb")

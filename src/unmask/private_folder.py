"""Folders that nobody else may write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from unmask.errors import InvalidValueError


def private_folder(path: Path, purpose: str) -> os.stat_result:
    """Make ``path`` for this user alone, if it is not there; what the system tells of it.

    Raises ``InvalidValueError`` if it cannot be had for ``purpose``, or others may write there.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
    except OSError as error:
        raise _unusable(path, purpose, error.strerror or str(error)) from None
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        raise _unusable(path, purpose, "others may write there")
    return found


def _unusable(path: Path, purpose: str, why: str) -> InvalidValueError:
    return InvalidValueError(
        f"The folder {path} cannot be used for {purpose}: {why}.", hint="Choose another one, or mend its rights."
    )

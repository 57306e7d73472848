"""Files that a user names: what the system says of one that it refuses, with its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unmask.errors import InvalidValueError
from unmask.shown import shown


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Raises ``InvalidValueError`` naming ``path`` if it cannot be read."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InvalidValueError(f"{shown(path)} cannot be read: {reason}.", hint="Name a file that exists.") from None


def check_writable(path: str) -> None:
    """Before long work whose result goes there: raises ``InvalidValueError`` if no file can be at ``path``."""
    reason = "it is a directory" if Path(path).is_dir() else "its directory does not exist"
    if Path(path).is_dir() or not Path(path).absolute().parent.is_dir():
        raise InvalidValueError(f"{shown(path)} cannot be written: {reason}.", hint="Name a file to write.")

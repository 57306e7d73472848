"""A folder through which logits come, in memory where there is one: those of one canvas may take 256 MiB."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

from unmask.errors import InsufficientMemoryError
from unmask.models.logits_worker.protocol import MOST_PATH_BYTES

_IN_MEMORY = Path("/dev/shm")
_PREFIX = "unmask-logits-"


class Exchange:
    """Paths that nobody else has, in a folder with room for ``size_bytes``; it is gone after ``close``.

    As long as its process lives, the folder is locked: one without a lock was left by a process that was killed, and
    goes when the next is made. Raises ``InsufficientMemoryError`` if no folder for short-lived files has the room.
    """

    def __init__(self, size_bytes: int) -> None:
        parent = _roomy([_IN_MEMORY, Path(tempfile.gettempdir())], size_bytes)
        _sweep(parent)
        self.folder, self._lock = _locked_folder(parent)
        self._numbers = count()

    def path(self) -> Path:
        """A path at which nothing is yet."""
        return self.folder / str(next(self._numbers))

    @property
    def free_bytes(self) -> int:
        """What may still be written."""
        return shutil.disk_usage(self.folder).free

    def close(self) -> None:
        """Take the folder away, with all that is in it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


def _roomy(parents: list[Path], size_bytes: int) -> Path:
    free = {}
    for parent in parents:
        if parent.is_dir() and os.access(parent, os.W_OK | os.X_OK) and _fits_a_line(parent):
            free[parent] = shutil.disk_usage(parent).free
            if free[parent] >= size_bytes:
                return parent
    told = ", ".join(f"{parent} has {room / 2**20:,.0f} MiB" for parent, room in free.items()) or "there is none"
    raise InsufficientMemoryError(
        f"Logits come through files of {size_bytes / 2**20:,.0f} MiB, and no folder for them has the room: {told}.",
        hint="Make /dev/shm larger (containers take an option for it), or name a larger folder in TMPDIR.",
    )


def _fits_a_line(parent: Path) -> bool:
    name = os.fsencode(parent)
    return len(name) < MOST_PATH_BYTES and b"\n" not in name


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder of this user alone, and the descriptor that locks it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with suppress(OSError):  # swept by another process before it was locked
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _sweep(parent: Path) -> None:
    """Remove this user's folders whose processes are gone."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

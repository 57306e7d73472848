"""Keys and values of conversations on disk, from one life of a model to the next. No torch here.

A file is called ``KEY-PART-DIGEST.kv``. ``KEY`` stands for all that what it holds depends on, ``DIGEST`` is the SHA-256
of its bytes. So what is torn, damaged or somebody else's is never taken for what it is not, whoever wrote it and
whatever became of the disk; and one rename is all it takes until a file is there. Several servers may share a folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EFBIG
from pathlib import Path
from typing import Any

import msgspec

from unmask.private_folder import private_folder

_FILE = re.compile(r"([0-9a-f]{32})-(\d{1,5})-([0-9a-f]{64})\.kv", re.ASCII)
_DRAFT = re.compile(r"tmp-[0-9a-f]{32}", re.ASCII)
_PIECE = 2**20  # bytes that are hashed between two looks at the clock
_AHEAD_SECONDS = 3600.0  # a file system's clock may be ahead of ours; a time beyond that is of a clock that was wrong

FileMark = tuple[str, int, int, int]


def key_of(facts: Any) -> str:
    """A name for ``facts``, plain values all of them, that no others have."""
    return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:32]


def mark_of(file: Path) -> FileMark:
    """What tells a file from a changed one, without a look into it: its path, size, and times of change.

    Raises ``OSError``.
    """
    status = file.stat()
    return os.path.abspath(file), status.st_size, status.st_mtime_ns, status.st_ctime_ns


def machine_mark() -> list[str]:
    """What kind of processor this is: another one may round in another way."""
    told = [platform.machine(), platform.processor()]
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0].splitlines()
        told += [line for line in first if line.startswith(("model name", "flags", "Features"))]
    return told


@dataclass(frozen=True, slots=True)
class Kept:
    """A file of the store: the ``part`` that it is of what is kept under ``key``."""

    path: Path
    key: str
    part: int
    digest: str


class SessionStore:
    """Files in ``directory``, of ``most_bytes`` in all: beyond that those go that were not used for longest.

    Raises ``InvalidValueError`` if the folder cannot be this user's alone. What else fails raises ``OSError``, and
    ``TimeoutError`` where it is not done when it is ``due``, a moment of ``time.monotonic``.
    """

    def __init__(self, directory: Path, most_bytes: int) -> None:
        self.directory = directory
        self.most_bytes = most_bytes
        self.prepare()

    def prepare(self) -> None:
        """Have the folder there, also if somebody has deleted it since. Raises as making a store does."""
        if private_folder(self.directory, "sessions").st_mode & 0o077:
            self.directory.chmod(0o700)

    def kept(self, key: str) -> list[Kept]:
        """The newest file of each part of ``key``, by their parts."""
        newest = {one.part: one for _, one in _by_age(self.directory) if one.key == key}
        return [newest[part] for part in sorted(newest)]

    def intact(self, kept: Kept, due: float) -> bool:
        """Whether a file holds what was written; from now on it is the one used last."""
        if _digest(kept.path, due) != kept.digest:
            return False
        os.utime(kept.path)
        return True

    def forget(self, kept: Kept) -> None:
        """Delete a file, if it is there and can be."""
        with suppress(OSError):
            kept.path.unlink()

    @contextmanager
    def draft(self, key: str, part: int) -> Iterator[Draft]:
        """A file to be filled and sealed; what was not sealed is deleted in the end."""
        draft = Draft(self, key, part)
        try:
            yield draft
        finally:
            draft.close()

    def take(self, draft: Path, key: str, part: int, due: float) -> Kept:
        """Keep what ``draft`` holds in the place of what was kept as ``part`` of ``key`` before."""
        size = draft.stat().st_size
        if size > self.most_bytes:
            raise OSError(EFBIG, f"{size} bytes are more than the store may hold, {self.most_bytes}")
        digest = _digest(draft, due)
        kept = Kept(self.directory / f"{key}-{part}-{digest}.kv", key, part, digest)
        before = [one for _, one in _by_age(self.directory) if (one.key, one.part) == (key, part)]
        draft.rename(kept.path)
        for one in before:
            if one != kept:
                self.forget(one)
        self.sweep()  # an engine that was told too late that nobody waits may have begun to write again
        self._trim()
        return kept

    def _trim(self) -> None:
        files = list(_by_age(self.directory))
        size = sum(status.st_size for status, _ in files)
        for status, one in files:
            if size <= self.most_bytes:
                return
            self.forget(one)
            size -= status.st_size

    def sweep(self) -> None:
        """Delete what servers that were killed have left half-written; what somebody writes is locked by him."""
        for path in self.directory.iterdir():
            if not _DRAFT.fullmatch(path.name) or not _is_file(path):
                continue
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()


class Draft:
    """A file of a store that is being filled, by whoever knows its ``path``. It is this user's alone from the first."""

    def __init__(self, store: SessionStore, key: str, part: int) -> None:
        self._store, self._key, self._part = store, key, part
        self.path, self._descriptor = _locked(store.directory)
        while not self.path.exists():  # somebody swept it before it was locked
            os.close(self._descriptor)
            self.path, self._descriptor = _locked(store.directory)

    @property
    def size(self) -> int:
        """Bytes that it has."""
        return os.fstat(self._descriptor).st_size

    def seal(self, due: float) -> Kept:
        """Keep it as it is. Raises as ``SessionStore`` says, also if it is larger than that may be."""
        return self._store.take(self.path, self._key, self._part, due)

    def close(self) -> None:
        """Delete it, unless it was sealed."""
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)


def held_in(directory: Path) -> tuple[int, int]:
    """How many files a store at ``directory`` has, and how many bytes. Raises ``OSError``."""
    sizes = [status.st_size for status, _ in _by_age(directory)] if directory.exists() else []
    return len(sizes), sum(sizes)


def _locked(directory: Path) -> tuple[Path, int]:
    """A new file, and its descriptor, which holds it locked."""
    path = directory / f"tmp-{secrets.token_hex(16)}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a file system without locks: nobody sweeps there
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return path, descriptor


def _by_age(directory: Path) -> Iterator[tuple[os.stat_result, Kept]]:
    """The files of a store, those that were not used for longest first, and before them those of a time to come."""
    found = []
    for path in directory.iterdir():
        if (name := _FILE.fullmatch(path.name)) and _is_file(path):
            with suppress(OSError):  # another server has just deleted it
                found.append((path.stat(), Kept(path, name[1], int(name[2]), name[3])))
    latest = time.time() + _AHEAD_SECONDS
    yield from sorted(found, key=lambda one: (one[0].st_mtime < latest, one[0].st_mtime_ns, one[1].path))


def _is_file(path: Path) -> bool:
    """Whether it is one itself: whoever opens a pipe waits for ever, and a link may lead anywhere."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _digest(path: Path, due: float) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            if time.monotonic() > due:
                raise TimeoutError(f"{path.name} could not be read in time")
    return digest.hexdigest()

"""Who listens on a port of this machine, as far as it is our own user's process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"
_MOST_READ = 8 * 2**20


def process_at(port: int, proc: Path = Path("/proc")) -> int | None:
    """The id of the process that listens on ``port``; None if it is another user's, or the system does not tell."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port, proc)}
    if not sockets:
        return None
    for folder in proc.iterdir():
        if folder.name.isdigit() and _holds(folder / "fd", sockets):
            return int(folder.name)
    return None


def _inodes(port: int, proc: Path) -> Iterator[str]:
    """Those of the sockets that listen there, by the kernel's tables of TCP."""
    for table in ("tcp", "tcp6"):
        try:
            with (proc / "net" / table).open() as file:
                lines = file.read(_MOST_READ).splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _holds(descriptors: Path, sockets: set[str]) -> bool:
    try:
        with os.scandir(descriptors) as entries:
            return any(os.readlink(entry.path) in sockets for entry in entries)
    except OSError:  # another user's, or gone
        return False

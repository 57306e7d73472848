"""The folder that tells of running children: for a gateway that comes after one which was killed."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from contextlib import suppress
from pathlib import Path

import msgspec

from unmask.gateway.process import KeptProcess
from unmask.private_folder import private_folder

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Identity(msgspec.Struct, frozen=True):
    """One process and no other: ids are given out again, but not with the same ``birth``.

    ``birth``: which run of the system, and how many clock ticks after its begin; "" where the system does not tell.
    """

    pid: int
    birth: str

    @classmethod
    def of(cls, pid: int) -> Identity:
        """That of the process ``pid``, as long as it runs."""
        return cls(pid, _birth(pid))

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return bool(self.birth) and _birth(self.pid) == self.birth


def _birth(pid: int) -> str:
    try:
        # After the name in parentheses, which may hold anything, come the state, field 3, and so on; 22 is the birth.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else f"{boot} {fields[19]}"


class Record(msgspec.Struct, frozen=True):
    """Who serves the model ``name``, for whom."""

    name: str
    gateway: Identity
    keeper: Identity
    child: Identity


class RunDirectory:
    """``path`` holds a record for each running child, and the children's logs; it is made, for this user alone.

    Raises ``InvalidValueError`` if others may write there: its records say which processes may be killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        private_folder(path, "running engines")

    def log_path(self, name: str) -> Path:
        """Where the log of the model ``name`` goes."""
        plain = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII).lstrip(".")[:80]
        mark = "" if plain == name else f"-{hashlib.sha256(os.fsencode(name)).hexdigest()[:8]}"
        return self.path / f"{plain}{mark}.log"

    def add(self, name: str, process: KeptProcess) -> Path | None:
        """Record a child; None if the disk does not take it, which must not keep the child from serving."""
        identities = [Identity.of(pid) for pid in (os.getpid(), process.keeper_pid, process.pid)]
        path = self.path / f"{process.keeper_pid}.json"
        try:
            path.write_bytes(msgspec.json.encode(Record(name, *identities)))
        except OSError:
            return None
        return path

    def sweep(self) -> list[Record]:
        """Kill the children of gateways that are gone; gives those that were. Other gateways' children stay.

        Only on systems that tell when a process was born is anything killed.
        """
        swept = []
        for path in self.path.glob("*.json"):
            record = _read(path)
            if record is not None and record.gateway.alive:
                continue
            if record is not None and _kill(record):
                swept.append(record)
            with suppress(OSError):
                path.unlink()
        return swept


def _read(path: Path) -> Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def _kill(record: Record) -> bool:
    """Whether there was anything to kill."""
    living = [one for one in (record.child, record.keeper) if one.alive]
    for one in living:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(one.pid, signal.SIGKILL)
    return bool(living)

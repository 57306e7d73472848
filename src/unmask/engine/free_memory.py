"""How much of the machine's memory may be taken: on Linux, what it and its control groups leave, or have. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_MOST_READ = 65536
_MOST_GROUPS = 64
# Of a memory controller's second and first version: its mount, the limit, what is in use, what of that is only cached.
_V2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


def host_bytes(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that this process may take of the machine's memory. ``proc`` and ``groups``: where the kernel tells."""
    rooms = [_machine(proc, "MemAvailable"), *(_group_room(*group) for group in _groups(proc, groups))]
    return min((room for room in rooms if room is not None), default=None)


def total_bytes(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The same if nothing else took any: what it has, and what it is allowed."""
    allowed = (_number(_read(group / limit)) for group, limit, _, _ in _groups(proc, groups))
    limits = [_machine(proc, "MemTotal"), *allowed]
    return min((limit for limit in limits if limit is not None), default=None)


def _machine(proc: Path, what: str) -> int | None:
    for line in _read(proc / "meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == what:
            return _number(value.removesuffix("kB"), 1024)
    return None


def _groups(proc: Path, groups: Path) -> Iterator[tuple[Path, str, str, tuple[str, ...]]]:
    """Each control group that this process is in, the groups around it included, and its files as in ``_V2``."""
    for line in _read(proc / "self" / "cgroup").splitlines()[:_MOST_GROUPS]:
        _, _, of_group = line.partition(":")
        controllers, _, path = of_group.partition(":")
        if controllers == "":
            root, files = groups, _V2
        elif "memory" in controllers.split(","):
            root, files = groups / "memory", _V1
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", ".", "..")][:_MOST_GROUPS]
        for depth in range(len(parts) + 1):
            yield root.joinpath(*parts[:depth]), *files


def _group_room(group: Path, limit: str, usage: str, cached: tuple[str, ...]) -> int | None:
    """What ``group`` leaves of its limit."""
    most, used = _number(_read(group / limit)), _number(_read(group / usage))
    if most is None or used is None:  # "max", or no such group in sight
        return None
    counts = dict(line.split(" ", 1) for line in _read(group / "memory.stat").splitlines() if " " in line)
    return max(most - used + sum(_number(counts.get(name, "")) or 0 for name in cached), 0)


def _number(text: str, unit: int = 1) -> int | None:
    return int(text) * unit if text.strip().isdecimal() else None


def _read(file: Path) -> str:
    try:
        with file.open(encoding="ascii", errors="replace") as stream:
            return stream.read(_MOST_READ)
    except OSError:
        return ""

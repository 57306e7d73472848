"""The lanes of engines that users made known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from unmask.gateway.engine import Engine, FileMark, mark_file
from unmask.gateway.engine_registry import Pin, Registry
from unmask.gateway.lane import Format, Lane

_FORMATS: dict[str, frozenset[Format]] = {
    "llama.cpp": frozenset({"gguf"}),
    "logits_worker": frozenset({"gguf"}),
    "sglang": frozenset({"safetensors"}),
    "vllm": frozenset({"safetensors"}),
}


def registered_lanes(registry: Registry) -> list[Lane]:
    """In the order in which the engines were added."""
    return [engine_lane(engine) for engine in registry.engines]


def engine_lane(engine: Engine) -> Lane:
    """What ``engine`` advertises, and whether it can be used now."""
    probed = engine.probed
    served = {} if probed is None else {kind: frozenset(names) for kind, names in probed.architectures.items()}
    missing, remedy = _missing(engine)
    return Lane(
        name=engine.name,
        kind=engine.kind,
        formats=_FORMATS[engine.kind],
        architectures=served,
        missing=missing,
        remedy=remedy,
        mark="" if probed is None else probed.mark,
    )


def without_disproved(lanes: Iterable[Lane], pins: Sequence[Pin]) -> tuple[Lane, ...]:
    """``lanes``, none of which advertises what this very build of it turned out not to know."""
    return tuple(_without_disproved(lane, pins) for lane in lanes)


def _without_disproved(lane: Lane, pins: Sequence[Pin]) -> Lane:
    served = dict(lane.architectures)
    for pin in pins:
        if (pin.failed, pin.failed_mark) == (lane.name, lane.mark) and lane.mark:
            served[pin.paradigm] = served.get(pin.paradigm, frozenset()) - {pin.architecture}
    return lane if served == lane.architectures else replace(lane, architectures=served)


def _missing(engine: Engine) -> tuple[str, str]:
    """Why ``engine`` cannot be used here now, and what to do; both '' if it can."""
    again = f"unmask engine probe {engine.name}"
    if not Path(engine.program).exists():
        return f"its program {engine.program} is gone", f"Bring it back, or: unmask engine remove {engine.name}"
    if engine.probed is None or engine.fault:
        return engine.fault or "it was not probed", again
    if changed := next((file.path for file in engine.probed.files if not _is_as_marked(file)), None):
        return f"{changed} has changed since it was probed, or is gone", again
    return "", ""


def _is_as_marked(file: FileMark) -> bool:
    """By size and time of change; only if they differ is the file read."""
    try:
        status = Path(file.path).stat()
        if (status.st_size, status.st_mtime_ns) == (file.size, file.mtime_ns):
            return True
        return status.st_size == file.size and _digest(file.path, status.st_mtime_ns) == file.sha256
    except OSError:
        return False


@lru_cache(maxsize=256)
def _digest(path: str, mtime_ns: int) -> str:
    """Of the file as it was at ``mtime_ns``, which has to be read only once."""
    return mark_file(Path(path)).sha256

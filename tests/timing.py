"""Bounds on CPU time that hold on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable

_QUIET = 0.03  # about what ``_measure`` takes on a machine that nobody else uses


def within(seconds: float, work: Callable[[], object], attempts: int = 3) -> bool:
    """Whether ``work`` takes less than ``seconds`` of CPU time, in the best of several attempts.

    Neighbours on the same core slow everything alike: if it takes longer, a fixed piece of work tells by how much.
    """
    best = min(_seconds(work) for _ in range(attempts))
    if best < seconds:
        return True
    slowness = min(_seconds(_measure) for _ in range(attempts)) / _QUIET
    return best < seconds * max(1.0, slowness)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _measure() -> int:
    return sum(number & 7 for number in range(400_000))

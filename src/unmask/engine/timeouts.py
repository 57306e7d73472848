"""Requests that take too long, each ended by the engine at the next step. Pure: time is passed in."""

from __future__ import annotations

from unmask.engine.scheduler import Scheduler
from unmask.engine.sequence import Sequence
from unmask.errors import QueueTimeoutError
from unmask.events import CanvasEvent


def end_overdue(scheduler: Scheduler, now: float) -> list[tuple[Sequence, CanvasEvent]]:
    """Take out every request whose time is over at ``now``, each with its last event.

    One that nothing was computed of ends with an error; any other with what is decided of its text, which stays as it
    was told.
    """
    ended: list[tuple[Sequence, CanvasEvent]] = []
    for sequence in [*scheduler.waiting, *scheduler.running.values()]:
        limit = _limit(sequence)
        if limit is None or now - sequence.arrived < limit:
            continue
        scheduler.remove(sequence.request_id)
        sequence.stats.total = now - sequence.arrived
        if sequence.stats.forwards:
            event = sequence.event("timeout")
            assert event is not None, "a finish is always news"
            ended.append((sequence, event))
        else:
            message = f"No answer was begun within {limit:g} seconds: the server is busy."
            ended.append((sequence, CanvasEvent.failure(sequence.request_id, QueueTimeoutError.code, message)))
    return ended


def _limit(sequence: Sequence) -> float | None:
    """Seconds from arrival within which ``sequence`` must end, or first be computed."""
    limits = [sequence.terms.timeout]
    if not sequence.stats.forwards:
        limits.append(sequence.terms.queue_timeout)
    return min((limit for limit in limits if limit is not None), default=None)

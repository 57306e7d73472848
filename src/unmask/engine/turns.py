"""What batch requests may take while interactive ones are served. Pure.

Two bounds make an interactive request's time nearly independent of how many batch requests there are. Batch requests
hold at most ``_HELD`` of the slots, the rows and the pages, so that an interactive one finds room when it comes. And
beside interactive requests they add at most ``_BESIDE`` rows to a step for each interactive row, on average: they take
turns, and pause meanwhile, which costs nothing, since all that is decided stays decided.
"""

from __future__ import annotations

from collections.abc import Collection

from unmask.engine.sequence import Sequence

_HELD = 0.75
_BESIDE = 0.5


def batch_may_join(running: Collection[Sequence], slots: int, rows: int, pages: int) -> bool:
    """Whether the running batch requests leave one more its share of ``slots``, ``rows`` of a step, and ``pages``.

    One of them may exceed the share of rows or pages: a request must be able to run however large it is.
    """
    batch = [sequence for sequence in running if sequence.terms.priority == "batch"]
    return (
        len(batch) < max(1, int(slots * _HELD))
        and sum(sequence.most_rows for sequence in batch) < rows * _HELD
        and sum(len(sequence.pages) for sequence in batch) < pages * _HELD
    )


class Turns:
    """Which of the running requests take part in a step."""

    def __init__(self) -> None:
        self._credit = 0.0
        self._step = 0
        self._last: dict[str, int] = {}  # by batch request: the step that it last took part in, or joined in

    def next(self, running: Collection[Sequence]) -> list[Sequence]:
        """Those of the coming step, in the order of ``running``: all, unless both priorities are among them.

        Then batch requests take turns, the longest paused first, as far as the credit reaches that interactive rows
        have earned them. What is left of it is kept for one that needs more, and void when none waits.
        """
        self._step += 1
        batch = [sequence for sequence in running if sequence.terms.priority == "batch"]
        self._last = {s.request_id: self._last.get(s.request_id, self._step) for s in batch}
        paused = dict.fromkeys(self._last)
        if len(batch) == len(running):
            self._credit = 0.0
            paused.clear()
        else:
            interactive = sum(s.most_rows for s in running) - sum(s.most_rows for s in batch)
            self._credit += _BESIDE * interactive
            self._spend(sorted(batch, key=lambda s: self._last[s.request_id]), paused)
        attending = [sequence for sequence in running if sequence.request_id not in paused]
        self._last |= {s.request_id: self._step for s in attending if s.request_id in self._last}
        return attending

    def _spend(self, batch: list[Sequence], paused: dict[str, None]) -> None:
        for sequence in batch:
            if sequence.most_rows > self._credit:
                return
            self._credit -= sequence.most_rows
            del paused[sequence.request_id]
        self._credit = 0.0

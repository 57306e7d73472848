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
        and sum(len(pages) for sequence in batch for pages in sequence.held.pages) < pages * _HELD
    )


class Turns:
    """Which of the running requests take part in a step."""

    def __init__(self) -> None:
        self._credit = 0.0
        self._order: list[str] = []  # the running batch requests; whose turn is next stands first

    def next(self, running: Collection[Sequence]) -> list[Sequence]:
        """Those of the coming step, in the order of ``running``: all, unless both priorities are among them.

        Then batch requests take turns, as far as the credit reaches that interactive rows have earned them. What is
        left of it is kept for the next of them, which may need more, and void if none has to wait.
        """
        batch = {one.request_id: one.most_rows for one in running if one.terms.priority == "batch"}
        known = [name for name in self._order if name in batch]
        self._order = known + [name for name in batch if name not in set(known)]
        if len(batch) == len(running):
            self._credit = 0.0
            return list(running)
        interactive = sum(one.most_rows for one in running) - sum(batch.values())
        self._credit += _BESIDE * interactive
        count = self._affordable(batch)
        paused = set(self._order[count:])
        self._order = self._order[count:] + self._order[:count]
        return [one for one in running if one.request_id not in paused]

    def _affordable(self, rows: dict[str, int]) -> int:
        """How many of the order, from the first on, the credit pays for; it pays."""
        for count, name in enumerate(self._order):
            if rows[name] > self._credit:
                return count
            self._credit -= rows[name]
        self._credit = 0.0
        return len(self._order)

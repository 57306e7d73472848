"""One engine under a virtual clock: the engine's own scheduler, its steps taking the seconds that they cost.

As in ``EngineLoop.step``, who arrives during a step is received when it is over. Steps between which nothing can
change are passed at once: costs are linear, so the seconds of k steps are a difference of sums known beforehand.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol, cast

from unmask.bench.costs import Costs
from unmask.bench.outcome import Outcome
from unmask.bench.simulated import PricedTrajectory, SimulatedSequence, steps_alike
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.terms import PLAIN, Terms


class Replica(Protocol):
    """Anything that serves requests under a virtual clock. ``until``: when it wants to go on; infinite while idle."""

    until: float

    def submit(self, number: int, priced: PricedTrajectory, now: float) -> None:
        """Request ``number`` arrives; ``until`` may become earlier."""

    def advance(self) -> list[int]:
        """Go on at ``until``; the numbers of the requests that ended there."""


class SteppedReplica:
    """An engine of ``max_running``, ``max_rows`` and so many key/value ``pages``.

    ``terms``, by their numbers, are those of the requests; without them all are alike. ``leaps``: whether steps between
    which nothing can change are passed at once.
    """

    def __init__(
        self,
        max_running: int,
        max_rows: int,
        pages: int,
        costs: Costs,
        outcome: Outcome,
        terms: Sequence[Terms] | None = None,
        *,
        leaps: bool = True,
    ) -> None:
        self.until = math.inf
        self._ledger = PageLedger(pages)
        self._scheduler = Scheduler(max_running, max_rows, KeyValueMemory(self._ledger))
        self._max_running = max_running
        self._step_seconds = costs.step
        self._outcome = outcome
        self._terms = terms
        self._leaps = leaps
        self._inbox: list[SimulatedSequence] = []
        self._stepping: list[SimulatedSequence] = []
        self._began = 0.0
        self._steps = 0

    def submit(self, number: int, priced: PricedTrajectory, now: float) -> None:
        """Received at the end of the running step, or at once."""
        terms = PLAIN if self._terms is None else self._terms[number]
        self._inbox.append(SimulatedSequence(number, priced, now, terms))
        if not self._stepping:
            self.until = now
        elif self._steps > 1:
            passed = range(1, self._steps)
            self._steps = 1 + bisect_left(passed, now - self._began, key=self._seconds)
            self.until = self._began + self._seconds(self._steps)

    def advance(self) -> list[int]:
        """End the steps that were under way, receive, and plan anew."""
        ended = self._end_steps() if self._stepping else []
        for sequence in self._inbox:
            self._scheduler.submit(sequence)
        self._inbox.clear()
        self._begin_steps()
        return ended

    def _begin_steps(self) -> None:
        now = self._began = self.until
        spans = self._scheduler.plan(now)
        while not spans and not self._scheduler.idle:  # all who run wait for a turn or a page: planning takes no time
            spans = self._scheduler.plan(now)
        self._stepping = [cast(SimulatedSequence, span.sequence) for span in spans]
        if not spans:
            self.until = math.inf
            return
        self._steps = steps_alike(self._scheduler, self._max_running, self._ledger.free) if self._leaps else 1
        self.until = now + self._seconds(self._steps)

    def _end_steps(self) -> list[int]:
        steps, outcome, began = self._steps, self._outcome, self._began
        for sequence in self._stepping:
            denoiser = sequence.denoiser
            left = denoiser.priced.first_block - denoiser.at
            if 0 < left <= steps and not denoiser.piecemeal:
                outcome.first_block[sequence.number] = began + self._seconds(left) - sequence.arrived
        ended = []
        for sequence in self._stepping:
            sequence.go_on(steps)
            if sequence.denoiser.ended:
                ended.append(sequence.number)
                self._scheduler.remove(sequence.request_id)
                outcome.queued[sequence.number] = sequence.stats.queued
                outcome.evictions += sequence.stats.evictions
                outcome.total[sequence.number] = self.until - sequence.arrived
        outcome.busy += self.until - began
        outcome.steps += steps
        outcome.spans += steps * len(self._stepping)
        outcome.ended = max(outcome.ended, self.until)
        return ended

    def _seconds(self, steps: int) -> float:
        """How long the coming ``steps`` take if nothing changes."""
        seconds = steps * self._step_seconds
        for sequence in self._stepping:
            denoiser = sequence.denoiser
            sums, at = denoiser.priced.seconds, denoiser.at
            seconds += sums[at + steps] - sums[at] + denoiser.surplus
        return seconds

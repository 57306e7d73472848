"""One engine under a virtual clock: the engine's own scheduler, its steps taking the seconds that they cost.

As in ``EngineLoop.step``, who arrives during a step is received when it is over. Steps between which nothing can
change are passed at once: costs are linear, so the seconds of k steps are a difference of sums known beforehand.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import Protocol, cast

from unmask.bench.costs import Costs
from unmask.bench.outcome import Outcome
from unmask.bench.simulated import PricedTrajectory, SimulatedSequence, settled
from unmask.engine.scheduler import Scheduler


class Replica(Protocol):
    """Anything that serves requests under a virtual clock. ``until``: when it wants to go on; infinite while idle."""

    until: float

    def submit(self, number: int, priced: PricedTrajectory, now: float) -> None:
        """Request ``number`` arrives; ``until`` may become earlier."""

    def advance(self) -> list[int]:
        """Go on at ``until``; the numbers of the requests that ended there."""


class SteppedReplica:
    """Steps as ``scheduler`` plans them, until the next end or arrival at once, or with ``leaps`` off one by one."""

    def __init__(
        self, scheduler: Scheduler, max_running: int, costs: Costs, outcome: Outcome, *, leaps: bool = True
    ) -> None:
        self.until = math.inf
        self._scheduler, self._max_running = scheduler, max_running
        self._step_seconds = costs.step
        self._outcome = outcome
        self._leaps = leaps
        self._inbox: list[SimulatedSequence] = []
        self._stepping: list[SimulatedSequence] = []
        self._began = 0.0
        self._steps = 0

    def submit(self, number: int, priced: PricedTrajectory, now: float) -> None:
        """Received at the end of the running step, or at once."""
        self._inbox.append(SimulatedSequence(number, priced, now))
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
        stepping = self._stepping = [cast(SimulatedSequence, span.sequence) for span in spans]
        if not stepping:
            assert self._scheduler.idle, "requests wait for an engine that does nothing"
            self.until = math.inf
            return
        self._steps = 1
        if self._leaps and settled(self._scheduler, self._max_running):
            self._steps = min(s.denoiser.priced.forwards - s.denoiser.at for s in stepping)
        self.until = now + self._seconds(self._steps)

    def _end_steps(self) -> list[int]:
        steps, outcome, began = self._steps, self._outcome, self._began
        for sequence in self._stepping:
            denoiser = sequence.denoiser
            left = denoiser.priced.first_block - denoiser.at
            if 0 < left <= steps:
                outcome.first_block[sequence.number] = began + self._seconds(left) - sequence.arrived
        ended = []
        for sequence in self._stepping:
            denoiser = sequence.denoiser
            denoiser.at += steps
            if denoiser.at == denoiser.priced.forwards:
                ended.append(sequence.number)
                self._scheduler.remove(sequence.request_id)
                outcome.queued[sequence.number] = sequence.stats.queued
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
            seconds += sums[at + steps] - sums[at]
        return seconds

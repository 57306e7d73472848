"""What engines without step-level batching do: a batch is filled, runs until all of it is finished, then the next.

A batch is one padded tensor: in each forward, every member costs as much as the one that asks for most, finished ones
too, and all answers are given when the last is finished.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from unmask.bench.costs import Costs
from unmask.bench.distributions import Floats
from unmask.bench.outcome import Outcome
from unmask.bench.simulated import PricedTrajectory


def batch_seconds(batch: list[PricedTrajectory], step_seconds: float) -> tuple[float, int]:
    """How long a padded batch takes, and in how many steps."""
    steps = max(member.forwards for member in batch)
    most: Floats = np.zeros(steps)
    for member in batch:
        np.maximum(most[: member.forwards], member.each, out=most[: member.forwards])
    return steps * step_seconds + len(batch) * float(most.sum()), steps


def least_timeout(workload: list[PricedTrajectory], size: int, step_seconds: float, rate: float) -> float:
    """``T_min = S - 1 / rate`` of arXiv 2608.23807: how long a batch is to wait for its next member, at least.

    S: mean seconds of full batches of ``workload``; ``rate``: requests a second. 0 where waiting never pays.
    """
    batches = [workload[first : first + size] for first in range(0, len(workload), size)]
    full = [batch for batch in batches if len(batch) == size] or batches
    service = float(np.mean([batch_seconds(batch, step_seconds)[0] for batch in full]))
    return max(0.0, service - 1 / rate)


class FixedFillReplica:
    """Starts a batch when ``size`` requests wait, or the oldest has waited for ``timeout`` seconds.

    With a timeout of 0 it takes whoever waits as soon as the batch before is finished.
    """

    def __init__(self, size: int, timeout: float, costs: Costs, outcome: Outcome) -> None:
        self.until = math.inf
        self._size, self._timeout = size, timeout
        self._step_seconds = costs.step
        self._outcome = outcome
        self._waiting: deque[tuple[int, PricedTrajectory, float]] = deque()
        self._batch: list[tuple[int, float]] = []

    def submit(self, number: int, priced: PricedTrajectory, now: float) -> None:
        """Request ``number`` arrives."""
        self._waiting.append((number, priced, now))
        if not self._batch:
            self.until = self._starts(now)

    def advance(self) -> list[int]:
        """End the batch, if one runs; start the next, if it may. The numbers of the requests that ended."""
        now = self.until
        ended = [number for number, _ in self._batch]
        for number, arrived in self._batch:
            self._outcome.first_block[number] = self._outcome.total[number] = now - arrived
        if ended:
            self._outcome.ended = max(self._outcome.ended, now)
        self._batch = []
        if self._waiting and self._starts(now) <= now:
            self._start(now)
        else:
            self.until = self._starts(now) if self._waiting else math.inf
        return ended

    def _starts(self, now: float) -> float:
        """When the next batch may start."""
        return now if len(self._waiting) >= self._size else self._waiting[0][2] + self._timeout

    def _start(self, now: float) -> None:
        members = [self._waiting.popleft() for _ in range(min(self._size, len(self._waiting)))]
        for number, _, arrived in members:
            self._outcome.queued[number] = now - arrived
        self._batch = [(number, arrived) for number, _, arrived in members]
        seconds, steps = batch_seconds([priced for _, priced, _ in members], self._step_seconds)
        self.until = now + seconds
        self._outcome.busy += seconds
        self._outcome.steps += steps
        self._outcome.spans += steps * len(members)

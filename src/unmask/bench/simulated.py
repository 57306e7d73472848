"""A request as the scheduler sees it, without a model: the real ``Sequence``, its windows played back.

Everything that the simulator knows of the engine's insides is in here.
"""

from __future__ import annotations

from bisect import insort

import numpy as np

from unmask.bench.costs import Costs
from unmask.bench.trajectory import Trajectory
from unmask.decoding.windows import Decision, Window
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.engine.sequence import Sequence


class PricedTrajectory:
    """A trajectory, and what it costs: ``each`` [forwards] is what each forward adds to its step, in seconds, and
    ``seconds[k]`` what the first k add together.
    """

    def __init__(self, trajectory: Trajectory, costs: Costs) -> None:
        self.trajectory = trajectory
        self.canvas = trajectory.canvas
        self.prompt_ids: list[int] = self.canvas.tokens[: self.canvas.prompt_length].tolist()
        self.windows = trajectory.windows
        self.most_rows = trajectory.most_rows
        self.forwards = trajectory.forwards
        self.first_block = trajectory.first_block
        self.tokens = self.canvas.length
        self.each = costs.of(trajectory.features)
        self.seconds: list[float] = [0.0, *np.cumsum(self.each).tolist()]


class Playback:
    """A denoiser that has done ``at`` of its forwards, all known beforehand. It does not count its blocks."""

    __slots__ = ("at", "blocks_begun", "priced")

    def __init__(self, priced: PricedTrajectory) -> None:
        self.priced = priced
        self.at = 0
        self.blocks_begun = 0

    @property
    def most_rows(self) -> int:
        """The most rows that any coming window can have."""
        return self.priced.most_rows[self.at]

    @property
    def most_forwards(self) -> int:
        """Exactly so many are needed."""
        return self.priced.forwards

    def next_window(self) -> Window:
        """The next forward."""
        return self.priced.windows[self.at]

    def apply(self, decision: Decision) -> int:
        """Not used: the simulator moves ``at`` by as many forwards as it passes at once."""
        raise NotImplementedError


class SimulatedSequence(Sequence):
    """Request ``number`` of a workload; it arrived at ``now``."""

    denoiser: Playback

    def __init__(self, number: int, priced: PricedTrajectory, now: float) -> None:
        trajectory = priced.trajectory
        super().__init__(str(number), priced.prompt_ids, trajectory.params, trajectory.model, now)
        self.number = number
        self.arrived = now
        self.denoiser = Playback(priced)
        self.canvas = priced.canvas  # for its lengths; nobody writes to it


class DeadlineScheduler(Scheduler):
    """The engine's scheduler with another order of waiting: by ``urgency``, then by arrival."""

    def __init__(self, max_running: int, max_rows: int, pages: PageLedger, urgency: list[tuple[bool, float]]) -> None:
        super().__init__(max_running, max_rows, pages)
        self._urgency = urgency

    def submit(self, sequence: Sequence) -> None:
        """Queue a request in front of all less urgent ones."""
        insort(self.waiting, sequence, key=self._urgency_of)

    def _urgency_of(self, sequence: Sequence) -> tuple[bool, float]:
        return self._urgency[int(sequence.request_id)]


def settled(scheduler: Scheduler, max_running: int) -> bool:
    """Whether planning again and again would admit nobody, until somebody arrives or ends.

    So it is if nobody waits or all places are taken: all else that ``Scheduler.plan`` looks at then stays as it is,
    its deficit at 0.
    """
    return not scheduler.waiting or len(scheduler.running) >= max_running

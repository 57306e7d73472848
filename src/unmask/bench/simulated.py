"""A request as the scheduler sees it, without a model: the real ``Sequence``, its windows played back.

Everything that the simulator knows of the engine's insides is in here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import accumulate
from typing import cast

import numpy as np

from unmask.bench.costs import Costs
from unmask.bench.trajectory import Moment, Trajectory
from unmask.decoding.windows import Decision, Window
from unmask.engine.pages import pages_for
from unmask.engine.scheduler import Scheduler
from unmask.engine.sequence import Sequence
from unmask.engine.step_features import span_features
from unmask.terms import PLAIN, Terms


class PricedTrajectory:
    """A trajectory, and what it costs: ``each`` [forwards] is what each forward adds to its step, in seconds, and
    ``seconds[k]`` what the first k add together.

    ``pages[k]``: how many forward k and those before it need. ``sure[k]``: the first forward after k that a lack of
    room could cut.
    """

    def __init__(self, trajectory: Trajectory, costs: Costs) -> None:
        self.trajectory = trajectory
        self.canvas = trajectory.canvas
        self.prompt_ids: list[int] = self.canvas.tokens[: self.canvas.prompt_length].tolist()
        self.moments = trajectory.moments
        self.unit, self.divisible = trajectory.unit, trajectory.divisible
        self.forwards = trajectory.forwards
        self.first_block = trajectory.first_block
        self.tokens = self.canvas.length
        self.each = costs.of(trajectory.features)
        self.seconds: list[float] = [0.0, *np.cumsum(self.each).tolist()]
        self.pages = list(accumulate((pages_for(moment.coming_end) for moment in self.moments), max))
        self.sure = _sure(self.moments, self.divisible)
        self._costs = costs

    def surplus(self, at: int, window: Window, *, piece: bool) -> float:
        """What ``window`` costs more than forward ``at`` as recorded: the same with more to compute, or only a
        ``piece`` of its prefill.
        """
        *features, candidates = span_features(window, self.canvas)
        candidates = 0 if piece else int(self.trajectory.features[at, -1])
        return float(self._costs.of(np.array([*features, candidates])) - self.each[at])


def _sure(moments: tuple[Moment, ...], divisible: bool) -> list[int]:
    """There is room for ``most_rows`` in any case."""
    sure, end = [], len(moments)
    for number in range(len(moments) - 1, -1, -1):
        sure.append(end)
        moment = moments[number]
        if divisible and moment.prefill_rows and moment.uncut_room > moment.most_rows:
            end = number
    return sure[::-1]


class Playback:
    """A denoiser that has done ``at`` of its forwards, all known beforehand. It does not count its blocks.

    Until a prefill is over that was cut, or has to be done again, fewer positions than recorded are ``cached``: the
    coming window is a piece of it, or the recorded one that begins earlier. ``surplus``: what it costs more, seconds.
    """

    __slots__ = ("_cached", "_moment", "_piece_end", "at", "blocks_begun", "priced", "surplus")

    def __init__(self, priced: PricedTrajectory) -> None:
        self.priced = priced
        self.at = 0
        self.blocks_begun = 0
        self.surplus = 0.0
        self._moment = priced.moments[0]
        self._cached: int | None = None
        self._piece_end = 0

    @property
    def unit(self) -> int | None:
        """As recorded, like all that is not said otherwise."""
        return self.priced.unit

    @property
    def divisible(self) -> bool:
        """As recorded."""
        return self.priced.divisible

    @property
    def cached(self) -> int:
        """As recorded, or what is left of it."""
        return self._moment.cached if self._cached is None else self._cached

    @property
    def final(self) -> int:
        """As recorded."""
        return self._moment.final

    @property
    def coming_end(self) -> int:
        """As recorded."""
        return self._moment.coming_end

    @property
    def interruptible(self) -> bool:
        """As recorded."""
        return self._moment.interruptible

    @property
    def prefill_rows(self) -> int:
        """As recorded, or what is missing of all that is final."""
        moment = self._moment
        return moment.prefill_rows if self._cached is None else moment.final - self._cached

    @property
    def uncut_room(self) -> int:
        """Behind the prefill stands what was recorded."""
        moment = self._moment
        return self.prefill_rows + moment.uncut_room - moment.prefill_rows

    @property
    def most_rows(self) -> int:
        """As recorded."""
        return self._moment.most_rows

    @property
    def most_forwards(self) -> int:
        """Exactly so many are needed."""
        return self.priced.forwards

    @property
    def sure_steps(self) -> int:
        """How many of its windows, the coming one first, are as recorded whatever room there is."""
        return 1 if self.piecemeal or self._cached is not None else self.priced.sure[self.at] - self.at

    def restart(self, cached: int) -> None:
        """Where nothing is exact, what is recorded computes all that it needs in any case."""
        moment = self._moment
        as_recorded = cached == moment.cached and moment.final - cached == moment.prefill_rows
        self._cached = None if self.unit == 0 or as_recorded else cached

    def next_window(self, room: int) -> Window:
        """The next forward as recorded, with what is missing, or a piece of that."""
        moment, cached, prefill = self._moment, self.cached, self.prefill_rows
        if self.divisible and prefill and room < self.uncut_room:
            unit = self.unit or 1
            end = self._piece_end = min((cached + room) // unit * unit, cached + prefill)
            window = Window(cached, end, end, None, [], end - 1)
            self.surplus = self.priced.surplus(self.at, window, piece=True)
        elif self._cached is not None:
            window = replace(moment.window, start=cached)
            self.surplus = self.priced.surplus(self.at, window, piece=False)
        else:
            window, self.surplus = moment.window, 0.0
        return window

    @property
    def ended(self) -> bool:
        """Whether all its forwards are done."""
        return self.at == self.priced.forwards

    @property
    def piecemeal(self) -> bool:
        """Whether the coming window is but a piece of a prefill, after which forward ``at`` is still to come."""
        return self._piece_end > 0

    def go_on(self, steps: int) -> None:
        """So many windows have been computed."""
        if self.piecemeal:
            self._cached, self._piece_end = self._piece_end, 0
        else:
            self.at += steps
            self._cached = None
            if not self.ended:
                self._moment = self.priced.moments[self.at]

    def apply(self, decision: Decision) -> int:
        """Not used: the simulator goes on by as many forwards as it passes at once."""
        raise NotImplementedError


class SimulatedSequence(Sequence):
    """Request ``number`` of a workload; it arrived at ``now``. It shares no keys and values: its tokens are made up."""

    denoiser: Playback
    streams = 1  # nobody is guided

    def __init__(self, number: int, priced: PricedTrajectory, now: float, terms: Terms = PLAIN) -> None:
        trajectory = priced.trajectory
        super().__init__(
            str(number), priced.prompt_ids, trajectory.params, trajectory.model, now, terms=terms, shares=False
        )
        self.number = number
        self.denoiser = Playback(priced)
        self.canvas = priced.canvas  # for its lengths; nobody writes to it

    def go_on(self, steps: int) -> None:
        """It took part in so many steps."""
        self.denoiser.go_on(steps)
        self.stats.forwards += steps
        self._window = None


def steps_alike(scheduler: Scheduler, max_running: int, free_pages: int) -> int:
    """For how many steps, the one just planned among them, ``scheduler`` would plan the same spans, each one window
    on, until somebody arrives or ends.

    More than one only if nobody who waits could be admitted, nobody has to wait for a turn, nobody's window depends on
    what room there is, and there are pages for all who grow. Then ``Scheduler.plan`` keeps nothing from step to step.
    """
    running = cast(Collection[SimulatedSequence], scheduler.running.values())
    if scheduler.waiting and len(running) < max_running:
        return 1
    if len({sequence.terms.priority for sequence in running}) > 1:
        return 1
    steps = min(sequence.denoiser.sure_steps for sequence in running)
    missing = sum(_missing_pages(sequence, steps) for sequence in running)
    return steps if missing <= free_pages else 1


def _missing_pages(sequence: SimulatedSequence, steps: int) -> int:
    """The pages that ``sequence`` has to get, at most, for so many steps."""
    playback = sequence.denoiser
    return max(0, playback.priced.pages[playback.at + steps - 1] - len(sequence.held.pages[0]))

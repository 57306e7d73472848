"""Measuring the loop's steps as they go: what each held, how long it took, how long nothing was to do before it."""

from __future__ import annotations

import time
from collections.abc import Callable

from unmask.engine.scheduler import Span
from unmask.engine.step_features import Features, step_features
from unmask.engine.step_records import StepRecord


class StepWatch:
    """What the loop tells of its steps. This one does not listen."""

    def begin(self) -> None:
        """A step begins, if none is under way: with the first command after a rest, or by itself."""

    def computed(self, spans: list[Span]) -> None:
        """All ``spans`` of the step, drafts among them, have been computed; nothing is decided on them yet."""

    def end(self, *, idle: bool) -> None:
        """The step's report was handed on. ``idle``: nothing is left to do."""

    def close(self) -> None:
        """No step will come."""


class StepMeter(StepWatch):
    """Gives ``keep`` a record of each step that computed something, by ``clock``."""

    def __init__(self, keep: Callable[[StepRecord], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._keep = keep
        self._clock = clock
        self._began: float | None = None
        self._ended = clock()
        self._features: Features | None = None
        self._measuring = 0.0

    def begin(self) -> None:
        """See ``StepWatch``."""
        if self._began is None:
            self._began = self._clock()

    def computed(self, spans: list[Span]) -> None:
        """Count what they hold."""
        begun = self._clock()
        self._features = step_features(spans)
        self._measuring = self._clock() - begun

    def end(self, *, idle: bool) -> None:
        """Give the record away."""
        began, ended = self._began, self._clock()
        if began is not None and self._features is not None:
            seconds = ended - began - self._measuring
            self._keep(StepRecord(round(began, 6), round(began - self._ended, 6), round(seconds, 6), *self._features))
        self._began, self._features, self._ended = None, None, self._clock()

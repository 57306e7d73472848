"""Requests whose answers are watched while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog

from unmask.answers.answer import AnswerDelta
from unmask.answers.sentinels import Expected, warnings_of
from unmask.serving.admission import Admission
from unmask.serving.observers.silence import Silence
from unmask.serving.observers.wrapped_admission import WrappedAdmission

_log = structlog.get_logger()


class ObservedAdmission(WrappedAdmission):
    """``inner``, answer by answer the same but for the warnings that are told with each. An observer that fails is
    logged, and the answer goes on without it.
    """

    def __init__(
        self, inner: Admission, expected: Expected, *, warn: Callable[[str], None], silence_seconds: float
    ) -> None:
        """``warn`` is told every kind of warning, as soon as it is known."""
        super().__init__(inner)
        self._expected = expected
        self._warn = warn
        self._silence = Silence(silence_seconds, self._silent)
        self._stalled = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """As ``inner`` runs."""
        with super().running():
            try:
                yield
            finally:
                self._silence.end()

    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta of ``inner``."""
        number, delta = await self._inner.next()
        try:
            return number, self._observed(number, delta)
        except Exception:
            _log.exception("an observer of answers failed")
            return number, delta

    def _observed(self, number: int, delta: AnswerDelta) -> AnswerDelta:
        self._silence.heard(number, delta)
        answer = delta.answer
        if answer is None:
            return delta
        found: list[str] = [*warnings_of(answer, self._expected)]
        for kind in found:
            self._warn(kind)
        told = tuple(sorted([*found, *["stalled_stream"] * self._stalled]))
        return replace(delta, answer=replace(answer, completion=replace(answer.completion, warnings=told)))

    def _silent(self) -> None:
        self._stalled = True
        try:
            self._warn("stalled_stream")
        except Exception:
            _log.exception("an observer of answers failed")

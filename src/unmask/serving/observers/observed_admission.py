"""Requests whose answers are watched while they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import structlog

from unmask.answers.answer import AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.sentinels import Expected, warnings_of
from unmask.serving.admission import Admission
from unmask.serving.observers.silence import Silence

_log = structlog.get_logger()


class ObservedAdmission(Admission):
    """``inner``, answer by answer the same but for the warnings that are told with each. An observer that fails is
    logged, and the answer goes on without it.
    """

    def __init__(
        self, inner: Admission, expected: Expected, *, warn: Callable[[str], None], silence_seconds: float
    ) -> None:
        """``warn`` is told every kind of warning, as soon as it is known."""
        self._inner = inner
        self._expected = expected
        self._warn = warn
        self._silence = Silence(silence_seconds, self._silent)
        self._stalled = False

    @property
    def cells(self) -> Cells:
        """Those of ``inner``."""
        return self._inner.cells

    @property
    def prompt_tokens(self) -> int:
        """Those of ``inner``."""
        return self._inner.prompt_tokens

    @contextmanager
    def running(self) -> Iterator[None]:
        """As ``inner`` runs."""
        with self._inner.running():
            try:
                yield
            finally:
                self._silence.end()

    @property
    def finished(self) -> bool:
        """As ``inner`` is."""
        return self._inner.finished

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

"""Tells when an answer has made no progress for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from unmask.answers.answer import AnswerDelta


class Silence:
    """One timer for all answers of a request, from their first sign of life on: waiting in the queue is no silence.

    Progress is text, reasoning, a piece of a call, a committed token, or the end. Frames are none.
    """

    def __init__(self, seconds: float, tell: Callable[[], None]) -> None:
        """``tell`` is called once, after ``seconds`` without progress."""
        self._seconds = seconds
        self._tell = tell
        self._committed: dict[int, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0

    def heard(self, number: int, delta: AnswerDelta) -> None:
        """Answer ``number`` has said ``delta``."""
        loop = asyncio.get_running_loop()
        if delta.parts or delta.answer is not None or delta.stats.committed > self._committed.get(number, -1):
            self._committed[number] = delta.stats.committed
            self._last = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._last + self._seconds
        if loop.time() < due:
            self._timer = loop.call_at(due, self._look)
        else:
            self._tell()

    def end(self) -> None:
        """Nothing more will be said."""
        if self._timer is not None:
            self._timer.cancel()

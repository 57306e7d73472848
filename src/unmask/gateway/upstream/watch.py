"""How long a lane may take, measured by what it gets done."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from unmask.errors import EngineStalledError, QueueTimeoutError
from unmask.events import RequestStats
from unmask.gateway.upstream.endpoint import Endpoint, Patience


class Watch:
    """The clock of one request. ``timeout``: the seconds that all of it may take, if there is a limit.

    One timer looks again when the time would be over that was left when it last looked: most progress costs nothing.
    """

    def __init__(self, endpoint: Endpoint, patience: Patience, timeout: float | None) -> None:
        self._endpoint = endpoint
        self._patience = patience
        self._timeout = timeout
        self._started = self._progress = time.monotonic()
        self._accepted: float | None = None
        self._first: float | None = None
        self._sent = False
        self._allowed = math.inf if patience.queue is None else patience.queue
        self._limit = asyncio.timeout(None)
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The request is there, to be sent when it is its turn. Raises ``TimeoutError``, in the task that enters, once
        the lane has got nowhere for too long.
        """
        self._started = self._progress = time.monotonic()
        async with self._limit:
            self._look()
            try:
                yield
            finally:
                self._stop()

    def sent(self) -> None:
        """It is its turn."""
        self._sent, self._progress = True, time.monotonic()
        self._allow(self._patience.begin)

    def accepted(self) -> None:
        """The lane has begun to respond."""
        self._accepted = time.monotonic()

    def progress(self, *, shown: bool, over: bool) -> None:
        """The lane got somewhere: with text that is ``shown``, or to the answer's end."""
        self._progress = time.monotonic()
        self._allow(self._patience.end if over else self._patience.stall)
        if shown and self._first is None:
            self._first = self._progress

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The lane is not listened to meanwhile, so that it cannot get anywhere; nor is the task ended, which now does
        what others want. Raises ``TimeoutError`` afterwards if the request's own time is over.
        """
        began = time.monotonic()
        self._paused = True
        if self._limit.when() is not None:  # it was about to be
            self._limit.reschedule(None)
        yield
        self._paused = False
        self._progress += time.monotonic() - began
        if self._left() <= 0:
            raise TimeoutError
        if self._timer is None:
            self._look()

    @property
    def timed_out(self) -> bool:
        """Whether it is the request's own time that is over, or that for which it may wait."""
        if not self._sent:
            return True
        return self._timeout is not None and time.monotonic() - self._started >= self._timeout

    def stats(self, cached: int = 0) -> RequestStats:
        """The times so far. The request is ``queued`` until the lane responds."""
        now = time.monotonic()
        return RequestStats(
            queued=(self._accepted or now) - self._started,
            first_block=None if self._first is None else self._first - self._started,
            total=now - self._started,
            cached=cached,
        )

    def stalled(self) -> EngineStalledError:
        """The error that the lane has got nowhere."""
        where = "within its answer" if self._first is not None else "before its answer began"
        return EngineStalledError(
            f"{self._endpoint.told} got nowhere for {self._allowed:g} seconds, {where}.",
            hint=f"{self._endpoint.look} Try again.",
        )

    def overdue(self) -> QueueTimeoutError:
        """The error that the request's time is over, and nothing has come."""
        seconds = time.monotonic() - self._started
        return QueueTimeoutError(
            f"No answer was begun within {seconds:.3g} seconds on lane '{self._endpoint.lane}'.",
            hint="Try again later.",
        )

    def _allow(self, seconds: float) -> None:
        if seconds != self._allowed:
            self._allowed = seconds
            self._stop()
            self._look()

    def _look(self) -> None:
        """End the waiting if the time is over, else look again when it would be. Not while the watch is paused."""
        self._timer = None
        left = self._left()
        if self._paused or math.isinf(left):
            return
        loop = asyncio.get_running_loop()
        if left > 0:
            self._timer = loop.call_later(left, self._look)
        else:
            self._limit.reschedule(loop.time())

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _left(self) -> float:
        left = self._progress + self._allowed - time.monotonic()
        if self._timeout is None:
            return left
        return min(left, self._started + self._timeout - time.monotonic())

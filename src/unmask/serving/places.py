"""Places in the queue: how many requests the server holds at once, running and waiting, and when one is free again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from unmask.errors import InvalidValueError, QueueFullError
from unmask.metrics import Metrics
from unmask.serving.service_rate import ServiceRate


class Places:
    """``capacity`` of them. What is refused for lack of them is counted in ``metrics``."""

    def __init__(self, capacity: int, metrics: Metrics) -> None:
        self._capacity = capacity
        self._metrics = metrics
        self._occupied = 0
        self._rate = ServiceRate()

    def check(self, answers: int, param: str) -> None:
        """Raises ``InvalidValueError`` for more answers than fit at once. To be asked before prompts are encoded."""
        if answers > max(self._capacity, 1):
            raise InvalidValueError(
                f"{answers} answers at once; this server holds {self._capacity}.",
                hint="Ask for fewer in one request.",
                param=param,
            )

    @contextmanager
    def held(self, count: int) -> Iterator[None]:
        """Hold ``count`` places. Raises ``QueueFullError`` if there are not as many left."""
        if self._occupied + count > self._capacity:
            self._metrics.rejected("queue_full")
            seconds = self.retry_after()
            raise QueueFullError(
                f"{self._occupied} requests are being served.",
                hint=f"Try again in about {seconds} s.",
                retry_after=seconds,
            )
        if not self._occupied:
            self._rate.begin(time.monotonic())
        self._occupied += count
        try:
            yield
        finally:
            self._occupied -= count
            if not self._occupied:
                self._rate.rest(time.monotonic())

    def finished(self) -> None:
        """A request has got its answer: that is what the service rate counts."""
        self._rate.finish(time.monotonic())

    def retry_after(self) -> int:
        """Seconds in which the requests that are here now are served, at the present rate."""
        return self._rate.retry_after(self._occupied, time.monotonic())

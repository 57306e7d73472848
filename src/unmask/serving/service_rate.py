"""How fast requests are finished, and so when it is worth trying again. Pure: time is passed in."""

from __future__ import annotations

import math
from collections import deque

_WINDOW = 60.0  # seconds in which there was something to do
_LEAST, _MOST = 1, 600  # seconds that a client may be told to wait


class ServiceRate:
    """Requests finished per second, over a sliding window that stands still while there is nothing to do."""

    def __init__(self) -> None:
        self._busy = 0.0  # seconds with requests, so far
        self._since: float | None = None  # when the present spell of them began
        self._finished: deque[float] = deque()  # on the busy clock

    def begin(self, now: float) -> None:
        """There are requests from ``now`` on."""
        self._since = now

    def rest(self, now: float) -> None:
        """There are none any more."""
        self._busy, self._since = self._clock(now), None

    def finish(self, now: float) -> None:
        """A request was finished."""
        clock = self._clock(now)
        self._finished.append(clock)
        while self._finished[0] < clock - _WINDOW:
            self._finished.popleft()

    def retry_after(self, ahead: int, now: float) -> int:
        """Whole seconds, 1 to 600, in which ``ahead`` requests and one more are finished at the present rate.

        Before the first one is, it is taken to be about to.
        """
        clock = self._clock(now)
        recent = sum(finish >= clock - _WINDOW for finish in self._finished)
        seconds = (ahead + 1) * min(clock, _WINDOW) / max(recent, 1)
        return max(_LEAST, min(math.ceil(seconds), _MOST))

    def _clock(self, now: float) -> float:
        return self._busy if self._since is None else self._busy + now - self._since

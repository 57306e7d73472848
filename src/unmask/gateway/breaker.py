"""When a model that fails is tried again. Pure: time is passed in.

After a failure to load, or a death, a model is tried again 1 second later at the earliest, after the next one 2, then
4, up to 60. After the third the circuit is open: until then requests are refused at once instead of waiting. The first
request after it is a trial. The circuit is closed as soon as the model is up; what failed before is forgotten once it
has been up for a minute, or was stopped in good order, so that one that dies after a few answers each time does not
look like one that works.
"""

from __future__ import annotations

import math

from unmask.errors import CircuitOpenError

_FIRST, _LONGEST = 1.0, 60.0  # seconds
_OPENS_AFTER = 3  # failures
_STEADY = 60.0  # seconds


class Breaker:
    """One model's failures. ``until``: when it may be tried again."""

    def __init__(self) -> None:
        self.until = 0.0
        self._reason = ""
        self._failures = 0
        self._up_since = math.inf

    def up(self, now: float) -> None:
        """The model is loaded."""
        self._up_since = now

    def failed(self, reason: str, now: float) -> None:
        """The model could not be loaded, or died."""
        self._failures = self.failures(now) + 1
        self._reason = reason
        self._up_since = math.inf
        self.until = now + min(_FIRST * 2.0 ** min(self._failures - 1, 16), _LONGEST)

    def stopped(self) -> None:
        """The model was stopped in good order; a load that was only broken off says nothing."""
        if self._up_since < math.inf:
            self._failures, self._up_since = 0, math.inf

    def failures(self, now: float) -> int:
        """How many since it last was up for a minute, or was stopped."""
        return 0 if now >= self._up_since + _STEADY else self._failures

    def reason(self, now: float) -> str:
        """What the last failure was; empty if it is forgotten."""
        return self._reason if self.failures(now) else ""

    def refusal(self, name: str, now: float) -> CircuitOpenError | None:
        """Why a request for the model ``name`` is not even let wait."""
        if self._failures < _OPENS_AFTER or now >= self.until:
            return None
        seconds = math.ceil(self.until - now)
        return CircuitOpenError(
            f"Model '{name}' has failed {self._failures} times and was never up for {_STEADY:g} s in between, the last "
            f"time with: {self._reason}",
            hint=f"It is tried again in {seconds} s.",
            retry_after=seconds,
        )

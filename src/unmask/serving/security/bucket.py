"""A budget that refills with time. Pure: time is passed in, in seconds of any clock that never goes back."""

from __future__ import annotations

_ROUNDING = 1e-6  # what floating point may lose of a unit


class TokenBucket:
    """``limit`` units for each ``period`` seconds, all of which may be spent at once; it begins full.

    Spending may overdraw it: a request's tokens are known when they are there. Then nothing is left until time has
    paid the debt, so over any time t no more than ``limit`` * (1 + t / ``period``) is spent, and what was under way.
    """

    def __init__(self, limit: int, period: float, now: float) -> None:
        self.limit = limit
        self._rate = limit / period
        self._level = float(limit)
        self._at = now

    def level(self, now: float) -> float:
        """The units there are; below zero if overdrawn."""
        return min(float(self.limit), self._level + max(now - self._at, 0.0) * self._rate)

    def has(self, amount: int, now: float) -> bool:
        """Whether ``amount`` is there."""
        return self.level(now) >= amount - _ROUNDING

    def spend(self, amount: int, now: float) -> None:
        """Take ``amount``, there or not."""
        self._level = self.level(now) - amount
        self._at = max(self._at, now)

    def wait(self, amount: int, now: float) -> float:
        """Seconds until ``amount``, at most ``limit``, is there if nothing is spent meanwhile."""
        return max(0.0, amount - self.level(now)) / self._rate

    def resized(self, limit: int, period: float, now: float) -> TokenBucket:
        """A bucket of another size that has what this one has, or owes what it owes."""
        other = TokenBucket(limit, period, now)
        other._level = min(other._level, self.level(now))
        return other

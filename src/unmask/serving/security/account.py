"""What a key may still do: its scopes, its rate, and its token budgets."""

from __future__ import annotations

import dataclasses
import math

from unmask.errors import InsufficientScopeError, RateLimitError, TokenBudgetError
from unmask.params import GenerationParams
from unmask.serving.security.bucket import TokenBucket
from unmask.serving.security.key import Key, Scope

_PERIODS = {"requests_per_minute": 60.0, "tokens_per_minute": 60.0, "tokens_per_day": 86400.0}  # seconds


class KeyAccount:
    """One key's budgets, kept for as long as the key file has its name. Times are seconds of one steady clock."""

    def __init__(self, key: Key, now: float) -> None:
        self.key = key
        self._buckets: dict[str, TokenBucket] = {}
        self.renew(key, now)

    def renew(self, key: Key, now: float) -> None:
        """The file says something else of this key now; what was spent stays spent."""
        self.key = key
        old, self._buckets = self._buckets, {}
        for name, period in _PERIODS.items():
            limit = getattr(key, name)
            if limit is not None:
                self._buckets[name] = (
                    old[name].resized(limit, period, now) if name in old else TokenBucket(limit, period, now)
                )

    def begin(self, scope: Scope, now: float) -> None:
        """Count a request. Raises ``InsufficientScopeError``, ``RateLimitError``, or ``TokenBudgetError`` if it would
        generate and a budget is used up.
        """
        if scope not in self.key.scopes:
            raise InsufficientScopeError(
                f"The key '{self.key.name}' may not do this: it lacks the scope '{scope}'.",
                hint="Use a key that has it.",
            )
        rate = self._buckets.get("requests_per_minute")
        if rate is not None:
            if not rate.has(1, now):
                raise RateLimitError(
                    f"The key '{self.key.name}' has {rate.limit} requests per minute.",
                    hint=_try_again(seconds := math.ceil(rate.wait(1, now))),
                    retry_after=seconds,
                )
            rate.spend(1, now)
        if scope == "generate":
            self._check_budgets(now)

    def _check_budgets(self, now: float) -> None:
        spent = [(name, budget) for name, budget in self._budgets() if not budget.has(1, now)]
        if spent:
            name, budget = max(spent, key=lambda item: item[1].wait(1, now))
            seconds = math.ceil(budget.wait(1, now))
            raise TokenBudgetError(
                f"The key '{self.key.name}' has used up its {budget.limit} {name.replace('_', ' ')}.",
                hint=_try_again(seconds),
                retry_after=seconds,
            )

    def charge(self, tokens: int, now: float) -> None:
        """A request has used ``tokens``, of its prompt and of its answer."""
        for _, budget in self._budgets():
            budget.spend(tokens, now)

    def bound(self, params: GenerationParams) -> GenerationParams:
        """``params`` as urgent as the key allows. Raises ``InsufficientScopeError`` if they ask for more."""
        if self.key.priority == "interactive":
            return params
        if params.priority == "interactive":
            raise InsufficientScopeError(
                f"The key '{self.key.name}' is for requests of priority '{self.key.priority}'.",
                hint="Leave it out.",
                param="priority",
            )
        return dataclasses.replace(params, priority=params.priority or self.key.priority)

    def headers(self, now: float) -> dict[str, str]:
        """What is left, as OpenAI's API tells it: ``x-ratelimit-*``, of tokens the tighter budget."""
        told: dict[str, str] = {}
        rate = self._buckets.get("requests_per_minute")
        if rate is not None:
            told |= _headers("requests", rate, now)
        tightest = min((budget for _, budget in self._budgets()), key=lambda budget: budget.level(now), default=None)
        if tightest is not None:
            told |= _headers("tokens", tightest, now)
        return told

    def _budgets(self) -> list[tuple[str, TokenBucket]]:
        return [(name, bucket) for name, bucket in self._buckets.items() if name.startswith("tokens")]


def _headers(what: str, bucket: TokenBucket, now: float) -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{what}": str(bucket.limit),
        f"x-ratelimit-remaining-{what}": str(max(0, int(bucket.level(now) + 0.001))),
        f"x-ratelimit-reset-{what}": f"{math.ceil(bucket.wait(bucket.limit, now))}s",
    }


def _try_again(seconds: int) -> str:
    return f"Try again in {seconds} s."

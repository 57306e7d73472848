"""The policies that a simulation compares, each a way to make replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from unmask.bench.costs import Costs
from unmask.bench.fixed_fill import FixedFillReplica, least_timeout
from unmask.bench.outcome import Outcome
from unmask.bench.replica import Replica, SteppedReplica
from unmask.bench.simulated import PricedTrajectory
from unmask.bench.workload import Workload
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.errors import InvalidValueError
from unmask.terms import Terms

POLICIES = ("step", "deadline", "drain", "fill")


@dataclass(frozen=True)
class Limits:
    """Of one replica: requests that share a step, rows of a step, tokens that the key/value pages hold (0: as many
    contexts as requests), requests that may wait.
    """

    max_running: int
    max_rows: int
    kv_tokens: int
    max_waiting: int

    @property
    def capacity(self) -> int:
        """Requests that it holds before it refuses more."""
        return self.max_running + self.max_waiting

    def pages(self, context_length: int) -> int:
        """Key/value pages, two contexts at least, as the engine has it. Raises ``InvalidValueError`` for fewer."""
        if not self.kv_tokens:
            return pages_for(context_length) * max(self.max_running, 2)
        if self.kv_tokens // PAGE_TOKENS < 2 * pages_for(context_length):
            raise InvalidValueError(
                f"{self.kv_tokens} key/value tokens do not hold two contexts of {context_length}.",
                hint=f"Give at least {2 * pages_for(context_length) * PAGE_TOKENS}.",
                param="kv_tokens",
            )
        return self.kv_tokens // PAGE_TOKENS


@dataclass(frozen=True)
class Policy:
    """``new`` makes a replica that notes in an outcome what happens. ``timeout``: seconds, for those that have one."""

    name: str
    new: Callable[[Outcome], Replica]
    timeout: float | None = None


@dataclass(frozen=True)
class Setting:
    """What all policies have in common: the requests, what they cost, and on how many replicas of which limits."""

    workload: Workload
    trajectories: list[PricedTrajectory]
    costs: Costs
    limits: Limits
    pages: int
    replicas: int

    @property
    def least_timeout(self) -> float:
        """``T_min`` of a batch of ``max_running`` on one replica, which gets its share of the arrivals."""
        requests = [self.trajectories[shape] for shape in self.workload.which[:20_000].tolist()]
        rate = self.workload.rate / self.replicas
        return least_timeout(requests, self.limits.max_running, self.costs.step, rate)


def make_policies(name: str, setting: Setting, timeouts: tuple[float, ...]) -> list[Policy]:
    """The policy ``name``, one of ``POLICIES``; "fill" with T_min, its half and double, or with each timeout given."""
    limits, costs = setting.limits, setting.costs

    def stepped(terms: Sequence[Terms] | None, outcome: Outcome) -> Replica:
        return SteppedReplica(limits.max_running, limits.max_rows, setting.pages, costs, outcome, terms)

    def fixed(timeout: float, outcome: Outcome) -> Replica:
        return FixedFillReplica(limits.max_running, timeout, costs, outcome)

    if name == "step":
        return [Policy("step", partial(stepped, None))]
    if name == "deadline":
        return [Policy("deadline", partial(stepped, setting.workload.terms))]
    if name == "drain":
        return [Policy("drain", partial(fixed, 0.0))]
    if timeouts:
        return [Policy("fill", partial(fixed, timeout), timeout) for timeout in timeouts]
    least = setting.least_timeout
    named = {"fill T_min/2": least / 2, "fill T_min": least, "fill 2 T_min": least * 2}
    return [Policy(name, partial(fixed, timeout), timeout) for name, timeout in named.items()]

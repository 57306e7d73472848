"""One simulation from beginning to end: arrivals at each rate, every policy, results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from unmask.bench.arrivals import bursts, poisson
from unmask.bench.costs import Calibration
from unmask.bench.distributions import Distribution, Floats
from unmask.bench.policies import POLICIES, Limits, Setting, make_policies
from unmask.bench.report import Objective, Result, Served, summarize
from unmask.bench.routing import ROUTINGS, Router
from unmask.bench.simulated import PricedTrajectory
from unmask.bench.simulation import simulate
from unmask.bench.trace import TraceRow
from unmask.bench.trajectory import Shape, find_trajectory
from unmask.bench.workload import Workload, draw_shapes, shapes_like
from unmask.errors import InvalidValueError
from unmask.params import GenerationParams

Watcher = Callable[[Result, Floats], None]


_LAWS = ("prompt_tokens", "output_tokens", "tokens_per_forward")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How large requests are: like those of a trace, or drawn by the ``laws`` of their ``prompt_tokens``,
    ``output_tokens`` and ``tokens_per_forward``. Output is cut at ``max_tokens``.

    Tokens per forward are drawn for requests of a trace, too, that does not tell forwards.
    """

    like: list[TraceRow] = field(default_factory=list)
    laws: dict[str, Distribution] = field(default_factory=dict)
    max_tokens: int | None = None

    @property
    def pace(self) -> Distribution | None:
        """Tokens per forward."""
        return self.laws.get("tokens_per_forward")

    def shapes(self, count: int, context_length: int, random: np.random.Generator) -> list[Shape]:
        """Sizes to draw from, all equally likely. Raises ``InvalidValueError`` for a law that is missing."""
        if self.like:
            return shapes_like(self.like, self.pace, random)
        for name in _LAWS:
            if name not in self.laws:
                option = f"--{name.replace('_', '-')}"
                raise InvalidValueError(f"'{name}' is not said.", hint=f"Give {option}, or --like a trace.", param=name)
        prompt, output, pace = (self.laws[name] for name in _LAWS)
        return draw_shapes(count, prompt, output, pace, self.max_tokens, context_length, random)


@dataclass(frozen=True, kw_only=True)
class Load:
    """Who arrives when: a ``trace`` at its own times, or ``count`` requests at each of ``rates`` (requests a second).

    ``on_off``: mean seconds of bursts and silences; without them arrivals are independent. ``deadline``: seconds, for
    requests that have none.
    """

    trace: list[TraceRow] = field(default_factory=list)
    count: int = 0
    rates: tuple[float, ...] = ()
    on_off: tuple[float, float] | None = None
    sizes: Sizes = field(default_factory=Sizes)
    deadline: Distribution | None = None
    seed: int = 0

    def workloads(self, context_length: int) -> Iterator[Workload]:
        """One for each rate, with the same requests; or the trace."""
        if self.trace:
            yield self._due(Workload.of_trace(self.trace, self.sizes.pace, self._random("sizes")))
            return
        shapes = self.sizes.shapes(self.count, context_length, self._random("sizes"))
        for rate in self.rates:
            workload = Workload.of_shapes(self._times(rate), rate, shapes, self._random("which"))
            yield self._due(workload)

    def _times(self, rate: float) -> Floats:
        random = self._random("times")
        if self.on_off is None:
            return poisson(rate, self.count, random)
        return bursts(rate, self.count, *self.on_off, random)

    def _due(self, workload: Workload) -> Workload:
        return workload if self.deadline is None else workload.with_deadlines(self.deadline, self._random("deadlines"))

    def _random(self, what: str) -> np.random.Generator:
        """Independent numbers for each thing that is drawn: what changes one leaves the others as they are."""
        return np.random.default_rng([self.seed, *what.encode()])


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """``replicas`` equal engines behind a router of the kind ``routing``."""

    replicas: int
    routing: str
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class Study:
    """Every one of ``policies`` under every load, with the same requests for all.

    ``timeouts``: for the policy "fill", in seconds. ``options``: what the requests ask for, beside their sizes.
    """

    load: Load
    fleet: Fleet
    policies: tuple[str, ...]
    timeouts: tuple[float, ...]
    options: GenerationParams
    objective: Objective

    def __post_init__(self) -> None:
        """Raises ``InvalidValueError`` naming an option with an unknown name, or out of range."""
        _check_names("policy", self.policies, POLICIES)
        _check_names("routing", (self.fleet.routing,), tuple(ROUTINGS))
        _check_numbers("rate", self.load.rates, zero=False)
        _check_numbers("timeout", self.timeouts)
        _check_numbers("first_block_within", (self.objective.first_block or 0.0,))
        _check_numbers("total_within", (self.objective.total or 0.0,))

    def run(self, calibration: Calibration, watch: Watcher) -> list[Result]:
        """At the costs of ``calibration``; ``watch`` gets each result, and the seconds that each request took [N].

        Raises what ``resolve`` raises for requests that the calibrated model cannot take.
        """
        fleet, results, context_length = self.fleet, [], calibration.model.context_length
        pages = fleet.limits.pages(context_length)
        trajectories: dict[Shape, PricedTrajectory] = {}
        for workload in self.load.workloads(context_length):
            priced = [self._priced(shape, calibration, trajectories) for shape in workload.shapes]
            setting = Setting(workload, priced, calibration.costs, fleet.limits, pages, fleet.replicas)
            for policy in chain.from_iterable(make_policies(name, setting, self.timeouts) for name in self.policies):
                router = Router(fleet.routing, fleet.replicas, self.load.seed)
                outcome = simulate(workload, priced, fleet.replicas, router, fleet.limits.capacity, policy.new)
                served = Served(workload, outcome, fleet.replicas, calibration.request_seconds)
                results.append(summarize(policy, served, self.objective))
                watch(results[-1], served.total)
        return results

    def _priced(self, shape: Shape, calibration: Calibration, known: dict[Shape, PricedTrajectory]) -> PricedTrajectory:
        if shape not in known:
            known[shape] = PricedTrajectory(find_trajectory(shape, self.options, calibration.model), calibration.costs)
        return known[shape]


def _check_names(param: str, given: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise InvalidValueError(f"'{param}' is {name!r}.", hint=f"Use one of {', '.join(known)}.", param=param)


def _check_numbers(param: str, given: tuple[float, ...], *, zero: bool = True) -> None:
    for number in given:
        if not 0 <= number < math.inf or (number == 0 and not zero):
            raise InvalidValueError(f"'{param}' is {number:g}.", hint="Give a positive number.", param=param)

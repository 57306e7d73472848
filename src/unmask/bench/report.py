"""What a simulation is told in: percentiles, goodput, and how busy the replicas were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Column, Table

from unmask.bench.distributions import Floats
from unmask.bench.outcome import Outcome
from unmask.bench.policies import Policy
from unmask.bench.workload import Workload

_HEADS = ("total", "first block", "queued", "met", "good/s", "tokens/s", "busy", "batch", "evicted", "refused")


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds; None where there is nothing to tell of."""

    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, seconds: Floats) -> Percentiles:
        """Those of all that are not NaN."""
        known = seconds[~np.isnan(seconds)]
        return cls(*np.percentile(known, [50, 95, 99]).tolist()) if len(known) else cls(None, None, None)

    def __str__(self) -> str:
        return "-" if self.p50 is None else " / ".join(f"{value:.3g}" for value in (self.p50, self.p95, self.p99))


class Objective(msgspec.Struct, frozen=True):
    """What a good answer is: first block and end within so many seconds, and within its own deadline if it has one."""

    first_block: float | None = None
    total: float | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One policy at one rate of arrivals (requests a second). ``timeout``: seconds, of policies that have one.

    Times are a client's: with the seconds that a request takes outside the engine, but for ``queued``, from arrival to
    admission. ``met``: share of all requests, the refused among them, that met the objective; ``goodput``: how many a
    second. ``utilisation``: share of the time that replicas spent in steps. ``mean_batch``: requests in a step.
    ``evictions``: how often a request lost its keys and values to a more urgent one.
    """

    policy: str
    timeout: float | None
    rate: float | None
    finished: int
    refused: int
    total: Percentiles
    first_block: Percentiles
    queued: Percentiles
    met: float
    goodput: float
    tokens_per_second: float
    utilisation: float
    mean_batch: float
    evictions: int

    @property
    def label(self) -> str:
        """The policy with its timeout."""
        return self.policy if self.timeout is None else f"{self.policy} ({self.timeout:.3g} s)"


@dataclass(frozen=True)
class Served:
    """A workload and what became of it on so many replicas, at a client to whom all takes ``request_seconds`` more."""

    workload: Workload
    outcome: Outcome
    replicas: int
    request_seconds: float

    @property
    def first_block(self) -> Floats:
        """Seconds until the first block [N], NaN where there is none."""
        return np.array(self.outcome.first_block) + self.request_seconds

    @property
    def total(self) -> Floats:
        """Seconds until the end [N], NaN for refused requests."""
        return np.array(self.outcome.total) + self.request_seconds

    def met(self, objective: Objective) -> NDArray[np.bool_]:
        """Which requests [N] met ``objective`` and their own deadlines."""
        total = np.nan_to_num(self.total, nan=np.inf)
        met: NDArray[np.bool_] = np.isfinite(total) & (total <= self.workload.deadlines)
        if objective.total is not None:
            met &= total <= objective.total
        if objective.first_block is not None:
            met &= np.nan_to_num(self.first_block, nan=np.inf) <= objective.first_block
        return met


def summarize(policy: Policy, served: Served, objective: Objective) -> Result:
    """The result of ``policy``."""
    workload, outcome, total = served.workload, served.outcome, served.total
    finished, met = ~np.isnan(total), served.met(objective)
    seconds = outcome.ended or np.inf
    return Result(
        policy=policy.name,
        timeout=policy.timeout,
        rate=float(workload.rate) if np.isfinite(workload.rate) else None,
        finished=int(finished.sum()),
        refused=len(outcome.refused),
        total=Percentiles.of(total),
        first_block=Percentiles.of(served.first_block),
        queued=Percentiles.of(np.array(outcome.queued)),
        met=float(met.mean()),
        goodput=float(met.sum() / seconds),
        tokens_per_second=float(workload.output_tokens[finished].sum() / seconds),
        utilisation=outcome.busy / (served.replicas * seconds),
        mean_batch=outcome.spans / max(outcome.steps, 1),
        evictions=outcome.evictions,
    )


def result_tables(results: list[Result]) -> Iterator[Table]:
    """For the terminal, one for each rate."""
    for rate in dict.fromkeys(result.rate for result in results):
        arrivals = "all at once" if rate is None else f"{rate:.4g} requests a second"
        table = Table(
            Column("policy", no_wrap=True),
            title=f"{arrivals}; seconds are p50 / p95 / p99",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        for head in _HEADS:
            table.add_column(head, justify="right", no_wrap=True)
        for result in results:
            if result.rate == rate:
                table.add_row(*_cells(result))
        yield table


def _cells(result: Result) -> tuple[str, ...]:
    return (
        result.label,
        str(result.total),
        str(result.first_block),
        str(result.queued),
        f"{result.met:.1%}",
        f"{result.goodput:.3g}",
        f"{result.tokens_per_second:.4g}",
        f"{result.utilisation:.0%}",
        f"{result.mean_batch:.1f}",
        str(result.evictions),
        str(result.refused),
    )

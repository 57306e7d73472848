"""Small worlds to simulate in: a toy model, costs that add up exactly, and one replica or a few."""

from __future__ import annotations

import numpy as np

from tests.infos import model_info
from unmask.bench.costs import Costs
from unmask.bench.outcome import Outcome
from unmask.bench.policies import Limits, Setting
from unmask.bench.replica import SteppedReplica
from unmask.bench.routing import Router
from unmask.bench.simulated import PricedTrajectory
from unmask.bench.simulation import simulate
from unmask.bench.trajectory import Shape, find_trajectory
from unmask.bench.workload import Workload
from unmask.params import GenerationParams

MODEL = model_info(rules=("threshold",), defaults={}, context_length=256)
# Their prompts are attended as one, or may be computed in pieces; canvases open up bit by bit, or at once.
SMALL = [model_info(kind, context_length=96) for kind in ("block_causal", "from_start", "renoise", "full")]
# Powers of two: sums of them are exact in any order.
EXACT = Costs(step=2**-4, span=2**-7, row=2**-8, key=2**-11, pair=2**-14, candidate=2**-10)
LIMITS = Limits(max_running=4, max_rows=64, kv_tokens=0, max_waiting=1000)


def shape(prompt: int, output: int, forwards: int, max_tokens: int | None = None) -> Shape:
    return Shape(prompt, max_tokens or output, output, forwards)


def workload(times: list[float], shapes: list[Shape], which: list[int] | None = None, **changes) -> Workload:
    count = len(times)
    known = {
        "times": np.array(times, dtype=float),
        "rate": (count - 1) / (times[-1] - times[0]) if times[-1] > times[0] else np.inf,
        "shapes": shapes,
        "which": np.array(which if which is not None else range(count)),
        "deadlines": np.full(count, np.inf),
        "batch": np.zeros(count, dtype=bool),
    }
    return Workload(**known | changes)


def priced(load: Workload, costs: Costs = EXACT, model=MODEL) -> list[PricedTrajectory]:
    return [PricedTrajectory(find_trajectory(one, GenerationParams(), model), costs) for one in load.shapes]


def setting(load: Workload, costs: Costs = EXACT, limits: Limits = LIMITS, replicas: int = 1, model=MODEL) -> Setting:
    return Setting(load, priced(load, costs, model), costs, limits, limits.pages(model.context_length), replicas)


def run(at: Setting, new, routing: str = "shortest_queue", seed: int = 0) -> Outcome:
    """Simulate ``new``, a way to make replicas."""
    router = Router(routing, at.replicas, seed)
    return simulate(at.workload, at.trajectories, at.replicas, router, at.limits.capacity, new)


def stepped(at: Setting, *, leaps: bool = True, terms: bool = False):
    """Replicas that step as the engine's scheduler plans, by the requests' ``terms`` or without."""

    def new(outcome: Outcome) -> SteppedReplica:
        said = at.workload.terms if terms else None
        limits = at.limits
        return SteppedReplica(limits.max_running, limits.max_rows, at.pages, at.costs, outcome, said, leaps=leaps)

    return new

"""The simulator against the live engine loop, by a clock that other programs do not disturb: CPU seconds.

Scheduler, denoisers, model and step costs are real; requests arrive by the sum of the seconds that the steps took.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.bench.worlds import run, stepped
from unmask.bench.arrivals import poisson
from unmask.bench.calibrate import MeasuredLoop, random_requests
from unmask.bench.costs import fit_costs
from unmask.bench.policies import Limits, Setting
from unmask.bench.simulated import PricedTrajectory
from unmask.bench.trajectory import Shape, find_trajectory
from unmask.bench.workload import Workload
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine import wire
from unmask.engine.options import EngineOptions
from unmask.params import GenerationParams
from unmask.resolve import resolve

RULE = GenerationParams(rule="low_confidence", steps=4)  # four forwards a block, whatever the tokens
LIMITS = Limits(max_running=8, max_rows=400, kv_tokens=0, max_waiting=10**6)


def replay(loop: MeasuredLoop, load: Workload) -> np.ndarray:
    """Seconds from arrival to end, and to the first block, of each request [2, N], by the loop's own clock."""
    coming = list(enumerate(load.times.tolist()))[::-1]
    now, took = 0.0, np.full((2, len(load)), np.nan)
    while coming or not loop.idle:
        if loop.idle:
            now = max(now, coming[-1][1])
        while coming and coming[-1][1] <= now:
            number, _ = coming.pop()
            shape = load.shapes[load.which[number]]
            asked = GenerationParams(rule=RULE.rule, steps=RULE.steps, max_tokens=shape.max_tokens, ignore_eos=True)
            loop.send(
                wire.Submit(str(number), [9] * shape.prompt_tokens, resolve(asked, loop.model, shape.prompt_tokens))
            )
        events = loop.timed_step()
        now += loop.records[-1].seconds
        for event in events:
            number = int(event.request_id)
            if event.last:
                took[0, number] = now - load.times[number]
            if event.stats.first_block is not None and np.isnan(took[1, number]):
                took[1, number] = now - load.times[number]
    return took


@pytest.mark.slow
def test_the_live_loop_takes_as_long_as_simulated():
    """A third more than the loop could serve one by one. Steps are measured before and after, as machines change."""
    random = np.random.default_rng(11)
    options = EngineOptions(
        model=EMBEDDED_MODEL, device="cpu", threads=1, max_running=8, max_rows=400, prefix_cache=False
    )
    loop = MeasuredLoop(options, clock=time.process_time)
    sizes = [(int(prompt), 16 * int(blocks)) for prompt, blocks in random.integers((5, 1), (150, 7), (30, 2))]
    shapes = [Shape(prompt, tokens, tokens, tokens // 4) for prompt, tokens in sizes]
    requests = random_requests(shapes, RULE, loop.model, random)
    trajectories = [find_trajectory(shape, RULE, loop.model) for shape in shapes]

    before = loop.measure(requests, 8, 3.0)
    costs, _ = fit_costs(*before)
    rate = 4 / 3 / np.mean([np.sum(costs.step + costs.of(one.features)) for one in trajectories])
    load = Workload.of_shapes(poisson(rate, 150, random), rate, shapes, random)
    real = replay(loop, load)
    after = loop.measure(requests, 8, 3.0)

    costs, fit = fit_costs(*map(np.concatenate, zip(before, after, strict=True)))
    priced = [PricedTrajectory(one, costs) for one in trajectories]
    at = Setting(load, priced, costs, LIMITS, LIMITS.pages(loop.model.context_length), 1)
    simulated = run(at, stepped(at))
    assert simulated.spans / simulated.steps > 1.5, "requests share steps"
    told = np.percentile([simulated.total, simulated.first_block], [50, 95], axis=1).T
    took = np.percentile(real, [50, 95], axis=1).T
    print(told, took, told / took - 1, fit, sep="\n")
    assert (abs(told / took - 1) <= (0.15, 0.25)).all(), (told, took, fit)

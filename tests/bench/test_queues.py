"""Where the engine degenerates to one server of one queue, theory knows how long requests wait."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.worlds import run, setting, shape, stepped, workload
from unmask.bench.arrivals import poisson
from unmask.bench.costs import Costs
from unmask.bench.policies import Limits, make_policies

ALONE = Limits(max_running=1, max_rows=10_000, kv_tokens=0, max_waiting=10**9)
SECOND = Costs(step=1.0)  # a step takes a second, whatever it holds


def pollaczek_khinchine(rate: float, services: np.ndarray) -> float:
    """Mean wait of a single server with independent arrivals and any law of service times."""
    return rate * np.mean(services**2) / (2 * (1 - rate * np.mean(services)))


@pytest.mark.parametrize("use", [0.3, 0.8])
def test_m_d_1(use):
    """Every request takes 4 steps."""
    rate = use / 4
    load = workload(poisson(rate, 12_000, np.random.default_rng(1)).tolist(), [shape(4, 16, 4)], [0] * 12_000)
    at = setting(load, SECOND, ALONE)
    outcome = run(at, stepped(at))
    assert np.mean(outcome.queued) == pytest.approx(use * 4 / (2 * (1 - use)), rel=0.05)
    assert outcome.busy / outcome.ended == pytest.approx(use, rel=0.02)
    np.testing.assert_allclose(np.array(outcome.total) - outcome.queued, 4.0, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("use", [0.7])
def test_m_m_1(use):
    """Numbers of steps with no memory, 20 on average: as good as exponential service times."""
    random = np.random.default_rng(2)
    steps = np.minimum(random.geometric(1 / 20, 30_000), 200)
    shapes = [shape(1, count, count) for count in range(1, 201)]
    rate = use / steps.mean()
    load = workload(poisson(rate, 30_000, random).tolist(), shapes, steps - 1)
    at = setting(load, SECOND, ALONE)
    outcome = run(at, stepped(at))
    assert np.mean(outcome.queued) == pytest.approx(pollaczek_khinchine(rate, steps.astype(float)), rel=0.06)
    exponential = use / (1 - use) * steps.mean()
    assert np.mean(outcome.queued) == pytest.approx(exponential, rel=0.1)


def test_a_batch_of_one_is_the_same_single_server():
    load = workload(poisson(0.15, 5000, np.random.default_rng(3)).tolist(), [shape(4, 16, 4)], [0] * 5000)
    at = setting(load, SECOND, ALONE)
    (drain,) = make_policies("drain", at, ())
    np.testing.assert_allclose(run(at, drain.new).total, run(at, stepped(at)).total)


def test_step_level_batching_beats_batches_that_drain_and_these_beat_those_that_fill():
    random = np.random.default_rng(4)
    shapes = [shape(int(p), int(o), max(1, int(o) // 2)) for p, o in random.integers(4, 60, (40, 2))]
    load = workload(poisson(0.5, 3000, random).tolist(), shapes, random.integers(0, 40, 3000))
    at = setting(load, limits=Limits(max_running=8, max_rows=1000, kv_tokens=0, max_waiting=10**9))
    p95 = {}
    for name, timeouts in (("step", ()), ("drain", ()), ("fill", (30.0,))):
        (policy,) = make_policies(name, at, timeouts)
        outcome = run(at, policy.new)
        p95[name] = np.percentile(outcome.total, 95)
    assert p95["step"] < p95["drain"] < p95["fill"]


def test_who_is_due_first_goes_first():
    """In a rush, requests by deadline meet more of them than requests by arrival, the others being equal."""
    random = np.random.default_rng(5)
    times = np.sort(random.uniform(0, 100, 400))
    urgent = random.random(400) < 0.3
    deadlines = np.where(urgent, 8.0, 120.0)
    load = workload(times.tolist(), [shape(10, 16, 8)], [0] * 400, deadlines=deadlines)
    at = setting(load, Costs(step=0.06, span=0.01), Limits(max_running=2, max_rows=100, kv_tokens=0, max_waiting=10**9))
    by_arrival, by_deadline = (run(at, make_policies(name, at, ())[0].new) for name in ("step", "deadline"))
    met = [np.mean(np.array(outcome.total) <= deadlines) for outcome in (by_arrival, by_deadline)]
    assert met[1] > met[0] + 0.1
    assert by_arrival.busy == pytest.approx(by_deadline.busy, rel=0.05), "the work is the same"


def test_batch_requests_give_way():
    load = workload([0.0] * 6, [shape(4, 4, 1)], [0] * 6, batch=np.array([True, True, False, True, False, False]))
    at = setting(load, SECOND, ALONE)
    (policy,) = make_policies("deadline", at, ())
    assert run(at, policy.new).total == [4.0, 5.0, 1.0, 6.0, 2.0, 3.0]


def test_least_timeout_is_the_rule_of_the_paper():
    """T_min = S - 1 / rate, with S the seconds of a full batch (arXiv 2608.23807)."""
    load = workload([n * 0.5 for n in range(64)], [shape(4, 16, 4)], [0] * 64)
    limits = Limits(max_running=8, max_rows=1000, kv_tokens=0, max_waiting=100)
    at = setting(load, SECOND, limits)
    assert at.least_timeout == pytest.approx(4.0 - 1 / load.rate)
    assert setting(load, SECOND, limits, replicas=8).least_timeout == pytest.approx(max(0, 4 - 8 / load.rate))
    assert [policy.timeout for policy in make_policies("fill", at, ())] == pytest.approx(
        [at.least_timeout / 2, at.least_timeout, at.least_timeout * 2]
    )


def test_fixed_fill_is_slow_at_low_and_at_high_load():
    """Mean latency over the load is U-shaped: batches that do not fill wait in vain, those that do queue."""
    means = []
    for rate in (0.05, 1.6, 1.99):
        load = workload(poisson(rate, 20_000, np.random.default_rng(6)).tolist(), [shape(4, 16, 4)], [0] * 20_000)
        at = setting(load, SECOND, Limits(max_running=8, max_rows=1000, kv_tokens=0, max_waiting=10**9))
        (policy,) = make_policies("fill", at, (20.0,))
        means.append(np.mean(run(at, policy.new).total))
    assert means[0] > means[1] < means[2]

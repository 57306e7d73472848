"""The virtual clock: what it says of a trace that can be followed by hand, and what holds for all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.worlds import LIMITS, run, setting, shape, stepped, workload
from unmask.bench.costs import Costs
from unmask.bench.policies import POLICIES, Limits, make_policies
from unmask.bench.routing import ROUTINGS

BY_HAND = Costs(step=1.0, row=0.125)


def test_three_requests_by_hand():
    """Two may run. A step takes 1 s and 1/8 s for each row; blocks have 4 positions.

    A (prompt 4, 8 tokens in 4 forwards) has windows of 8 rows (prompt and first block), 4, 8 (the block that is
    finished with the next one), 4. B (prompt 8, 4 tokens in 2) has 12, 4. C is like B.
    """
    load = workload([0.0, 1.0, 2.5], [shape(4, 8, 4), shape(8, 4, 2)], [0, 1, 1])
    at = setting(load, BY_HAND, Limits(max_running=2, max_rows=1000, kv_tokens=0, max_waiting=10))
    # 0.0   A 8 rows                   until 2.0, B comes at 1.0
    # 2.0   A 4, B 12: 16 rows         until 5.0, C comes at 2.5 and finds no place
    # 5.0   A 8, B 4: 12 rows          until 7.5: B ends; both blocks of A's first four tokens stand since 5.0
    # 7.5   A 4, C 12: 16 rows         until 10.5: A ends
    # 10.5  C 4 rows                   until 12.0: C ends
    outcome = run(at, stepped(at))
    assert outcome.queued == [0.0, 1.0, 5.0]
    assert outcome.first_block == [5.0, 6.5, 9.5]
    assert outcome.total == [10.5, 6.5, 9.5]
    assert (outcome.steps, outcome.spans, outcome.busy, outcome.ended) == (5, 8, 12.0, 12.0)
    assert outcome.refused == []


def test_a_batch_by_hand():
    """The same three, in batches of two: each step costs both members as much as the one that asks for most."""
    load = workload([0.0, 1.0, 2.5], [shape(4, 8, 4), shape(8, 4, 2)], [0, 1, 1])
    at = setting(load, BY_HAND, Limits(max_running=2, max_rows=1000, kv_tokens=0, max_waiting=10))
    (drain,) = make_policies("drain", at, ())
    # 0.0  A alone: 8, 4, 8, 4 rows    until 4 + 24/8 = 7.0
    # 7.0  B and C: twice 12, twice 4  until 7 + 2 + 32/8 = 13.0
    outcome = run(at, drain.new)
    assert outcome.total == outcome.first_block == [7.0, 12.0, 10.5]
    assert outcome.queued == [0.0, 6.0, 4.5]
    (fill,) = make_policies("fill", at, (4.0,))
    # 1.0  A and B: twice 12, 4, 8, 4  until 1 + 4 + 56/8 = 12.0
    # 12.0 C has waited longer than 4 s: 12, 4 rows, until 12 + 2 + 2 = 16.0
    outcome = run(at, fill.new)
    assert outcome.total == [12.0, 11.0, 13.5]
    (patient,) = make_policies("fill", at, (20.0,))
    # C waits for a second member until 22.5
    assert run(at, patient.new).total == [12.0, 11.0, 24.0]


def test_who_comes_at_the_border_of_a_step_is_in_the_next():
    load = workload([0.0, 2.0], [shape(4, 8, 4), shape(8, 4, 2)])
    at = setting(load, BY_HAND)
    assert run(at, stepped(at)).queued == [0.0, 0.0]


def test_a_full_replica_refuses():
    load = workload([0.0] * 5, [shape(4, 4, 1)], [0] * 5)
    at = setting(load, BY_HAND, Limits(max_running=1, max_rows=1000, kv_tokens=0, max_waiting=2))
    outcome = run(at, stepped(at))
    assert outcome.refused == [3, 4]
    assert np.isnan(outcome.total).tolist() == [False, False, False, True, True]


SHAPES = st.builds(shape, st.integers(1, 40), st.integers(1, 30), st.integers(1, 12))
WORLDS = st.fixed_dictionaries(
    {
        "gaps": st.lists(st.integers(0, 12).map(lambda n: n / 8), min_size=1, max_size=40),
        "shapes": st.lists(SHAPES, min_size=1, max_size=4),
        "limits": st.builds(
            Limits,
            max_running=st.integers(1, 5),
            max_rows=st.integers(1, 90),
            kv_tokens=st.sampled_from([0, 512, 640]),
            max_waiting=st.sampled_from([0, 3, 100]),
        ),
        "replicas": st.integers(1, 3),
        "routing": st.sampled_from(sorted(ROUTINGS)),
    }
)


def build(world):
    times = np.cumsum(world["gaps"]).tolist()
    load = workload(times, world["shapes"], [n % len(world["shapes"]) for n in range(len(times))])
    return setting(load, limits=world["limits"], replicas=world["replicas"])


@settings(max_examples=60)
@given(WORLDS)
def test_leaps_change_nothing(world):
    """Passing over steps in which nothing can change gives, to the last bit, what planning each of them gives."""
    at = build(world)
    leaping = run(at, stepped(at), world["routing"])
    walking = run(at, stepped(at, leaps=False), world["routing"])
    np.testing.assert_equal(vars(leaping), vars(walking))


@settings(max_examples=40)
@given(WORLDS, st.sampled_from(POLICIES))
def test_every_request_ends_once(world, name):
    at = build(world)
    for policy in make_policies(name, at, ()):
        outcome = run(at, policy.new, world["routing"])
        total = np.array(outcome.total)
        finished = np.flatnonzero(~np.isnan(total)).tolist()
        assert sorted([*finished, *outcome.refused]) == list(range(len(at.workload)))
        queued, first = np.array(outcome.queued)[finished], np.array(outcome.first_block)[finished]
        assert (queued >= 0).all()
        assert (queued < first).all()
        assert (first <= total[finished]).all()
        ends = at.workload.times[finished] + total[finished]
        assert outcome.ended == max(ends, default=0.0)
        assert outcome.busy <= at.replicas * outcome.ended + 1e-9
        alone = [at.trajectories[at.workload.which[n]] for n in finished]
        least = [one.seconds[-1] + one.forwards * at.costs.step for one in alone]
        assert (total[finished] >= np.array(least) - 1e-9).all(), "nobody is faster than alone"


def test_each_ends_once_and_not_twice(monkeypatch):
    """Every request is taken out of the scheduler exactly once."""
    load = workload([n / 4 for n in range(50)], [shape(9, 20, 7), shape(3, 6, 2)], [n % 2 for n in range(50)])
    at = setting(load, limits=LIMITS)
    ended = []
    make = stepped(at)

    def new(outcome):
        replica = make(outcome)
        advance = replica.advance
        monkeypatch.setattr(replica, "advance", lambda: ended.extend(done := advance()) or done)
        return replica

    run(at, new)
    assert sorted(ended) == list(range(50))


@pytest.mark.parametrize("routing", sorted(ROUTINGS))
def test_more_replicas_serve_sooner(routing):
    load = workload([n / 4 for n in range(200)], [shape(20, 24, 12), shape(5, 8, 3)], [n % 2 for n in range(200)])
    means = []
    for replicas in (1, 2, 4):
        at = setting(load, replicas=replicas)
        means.append(np.mean(run(at, stepped(at), routing).total))
    assert means == sorted(means, reverse=True)

"""The virtual clock: what it says of a trace that can be followed by hand, and what holds for all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.worlds import LIMITS, SMALL, run, setting, shape, stepped, workload
from tests.infos import model_info
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


@pytest.mark.parametrize("leaps", [True, False])
def test_a_long_prompt_in_pieces_by_hand(leaps):
    """A step has 10 rows, 8 of them kept for each request: two blocks. Pieces end where blocks of 4 do.

    A has a prompt of 20 and takes one forward for its only block; B's prompt is in its first block of two.
    """
    load = workload([0.0, 0.0], [shape(20, 4, 1), shape(3, 4, 2)])
    limits = Limits(max_running=4, max_rows=10, kv_tokens=0, max_waiting=10)
    at = setting(load, BY_HAND, limits, model=model_info("from_start", rules=("threshold",), defaults={}))
    # 0.0  A 8 rows, a piece            until 2.0; 2 rows are left over and carried on, as B waits for 8
    # 2.0  A 12 rows, a piece           until 4.5
    # 4.5  A 4 rows, its block          until 6.0: A ends
    # 6.0  B 4 rows                     until 7.5: its first block stands
    # 7.5  B 8 rows                     until 9.5: B ends
    outcome = run(at, stepped(at, leaps=leaps))
    assert outcome.queued == [0.0, 6.0]
    assert outcome.first_block == [6.0, 7.5]
    assert outcome.total == [6.0, 9.5]
    assert (outcome.steps, outcome.spans) == (5, 5)


@pytest.mark.parametrize("leaps", [True, False])
def test_an_eviction_by_hand(leaps):
    """Three requests begin with a page each, and there are five: all want a second one in the second step.

    Each has a prompt of 28 and 8 tokens in 8 forwards: windows of 32 rows, 4, 4, 4, 8, 4, 4, 4. C is due last.
    """
    load = workload([0.0] * 3, [shape(28, 8, 8)], [0] * 3, deadlines=np.array([1.0, 2.0, 3.0]))
    limits = Limits(max_running=3, max_rows=1000, kv_tokens=160, max_waiting=10)
    at = setting(load, BY_HAND, limits, model=model_info(rules=("threshold",), defaults={}))
    # 0.0   A, B, C 32 rows each         until 13.0: C is evicted
    # 13.0  A and B 4 rows each          until 15.0, 17.0 and 19.0, when their first blocks stand
    # 19.0  A and B 8 rows each          until 22.0
    # 22.0  A and B 4 rows each          until 24.0, 26.0 and 28.0: A and B end
    # 28.0  C 32 rows, all once more     until 33.0
    # 33.0  C 4, 4 rows                  until 36.0, when its first block stands
    # 36.0  C 8, 4, 4, 4 rows            until 42.5: C ends
    outcome = run(at, stepped(at, leaps=leaps, terms=True))
    assert outcome.queued == [0.0] * 3
    assert outcome.first_block == [19.0, 19.0, 36.0]
    assert outcome.total == [28.0, 28.0, 42.5]
    assert (outcome.steps, outcome.spans, outcome.evictions) == (15, 24, 1)


@pytest.mark.parametrize("leaps", [True, False])
def test_taking_turns_by_hand(leaps):
    """Beside an interactive request a batch request of equal size takes part in every second step."""
    load = workload([0.0] * 2, [shape(4, 4, 2), shape(4, 4, 4)], batch=np.array([True, False]))
    at = setting(load, BY_HAND, Limits(max_running=2, max_rows=1000, kv_tokens=0, max_waiting=10))
    # 0.0  8 rows of the interactive one  until 2.0
    # 2.0  4, and 8 of the batch request  until 4.5
    # 4.5  4                              until 6.0
    # 6.0  4 and 4                        until 8.0: both end
    outcome = run(at, stepped(at, leaps=leaps, terms=True))
    assert outcome.total == [8.0, 8.0]
    assert (outcome.queued, outcome.steps, outcome.spans) == ([0.0, 0.0], 4, 6)
    alike = run(at, stepped(at, leaps=leaps))
    assert (alike.steps, alike.total[0] < 6.0) == (4, True), "without terms nobody pauses"


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


SIZES = [(1, 90), (30, 60), (9, 40), (50, 45), (26, 7), (1, 1), (60, 20)]  # prompts and answers
SHAPES = st.builds(lambda size, forwards: shape(*size, forwards), st.sampled_from(SIZES), st.integers(1, 30))
WORLDS = st.fixed_dictionaries(
    {
        "count": st.integers(1, 40),
        "gaps": st.lists(st.sampled_from([0.0, 0.125, 0.5, 1.5]), min_size=1, max_size=5),
        "shapes": st.lists(SHAPES, min_size=1, max_size=4),
        "model": st.sampled_from(SMALL),  # with contexts of three pages each
        "batch": st.sampled_from([[False, True], [False], [True, True, False], [False, False, True], [True]]),
        "deadlines": st.lists(st.sampled_from([0.5, 4.0, np.inf]), min_size=1, max_size=3),
        "limits": st.builds(
            Limits,
            max_running=st.sampled_from([3, 1, 2, 5]),
            max_rows=st.sampled_from([1000, 60, 20, 110, 1]),
            kv_tokens=st.sampled_from([192, 0, 224, 288]),
            max_waiting=st.sampled_from([100, 0, 3]),
        ),
        "replicas": st.integers(1, 2),
        "routing": st.sampled_from(sorted(ROUTINGS)),
    }
)


def build(world):
    times = np.cumsum(np.resize(world["gaps"], world["count"])).tolist()
    which = [n % len(world["shapes"]) for n in range(len(times))]
    batch, deadlines = (np.resize(world[name], len(times)) for name in ("batch", "deadlines"))
    load = workload(times, world["shapes"], which, batch=batch, deadlines=deadlines)
    return setting(load, limits=world["limits"], replicas=world["replicas"], model=world["model"])


@settings(max_examples=150)
@given(WORLDS)
def test_leaps_change_nothing(world):
    """Passing over steps in which nothing can change gives, to the last bit, what planning each of them gives."""
    at = build(world)
    leaping = run(at, stepped(at, terms=True), world["routing"])
    walking = run(at, stepped(at, leaps=False, terms=True), world["routing"])
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
        least = [sum(one.trajectory.features[:, 1]) * at.costs.row + one.forwards * at.costs.step for one in alone]
        assert (total[finished] >= np.array(least)).all(), "nobody computes less than alone"


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

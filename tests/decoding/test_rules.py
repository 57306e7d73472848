"""Every commit rule against a slow, obvious restatement of its reference, one block at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.decoding.rules import RULES, RuleParams

MISSING = -1.0  # not masked

scores = st.one_of(st.just(MISSING), st.floats(0.0009765625, 1.0, width=32))
blocks = st.lists(scores, min_size=6, max_size=6).filter(lambda block: max(block) > MISSING)


@st.composite
def segments(draw):
    """Several blocks with parameters of their own."""
    count = draw(st.integers(1, 5))
    return [
        {
            "block": draw(blocks),
            "quota": draw(st.integers(0, 7)),
            "share": draw(st.sampled_from([0.0, 0.25, 1.0])),
            "entropy_bound": draw(st.sampled_from([0.0, 0.3, 2.0])),
            "threshold": draw(st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0])),
            "factor": draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0])),
            "activated": draw(st.booleans()),
        }
        for _ in range(count)
    ]


def run(rule: str, cases: list[dict]) -> list[set[int]]:
    score = torch.tensor([case["block"] for case in cases], dtype=torch.float64)
    if rule in NEGATED:
        score = torch.where(score == MISSING, score, -score)
    score[(score == MISSING) & torch.tensor([[x == MISSING for x in case["block"]] for case in cases])] = -torch.inf
    params = RuleParams(
        quota=torch.tensor([case["quota"] for case in cases]),
        **{
            name: torch.tensor([case[name] for case in cases], dtype=torch.float64)
            for name in ("share", "threshold", "factor", "entropy_bound")
        },
        activated=torch.tensor([case["activated"] for case in cases]),
    )
    return [set(row.nonzero().flatten().tolist()) for row in RULES[rule].commit(score, params)]


def by_confidence(block: list[float]) -> list[int]:
    """Masked positions, the most confident first, the leftmost of equals first."""
    return sorted((i for i, score in enumerate(block) if score != MISSING), key=lambda i: (-block[i], i))


def slow_low_confidence(case):
    return set(by_confidence(case["block"])[: case["quota"]])


def slow_threshold(case):
    order = by_confidence(case["block"])
    return {order[0]} | {i for i in order if case["block"][i] >= case["threshold"]}


def slow_factor(case):
    """Fast-dLLM's loop, word for word: thresholds 1 - f / (k + 1) with the first at -1, then the index corrections."""
    order = by_confidence(case["block"])
    n = len(order)
    thresholds = [1 - case["factor"] / (k + 1) for k in range(1, n + 1)]
    thresholds[0] = -1
    for j in range(n):
        if case["block"][order[j]] < thresholds[j]:
            break
    else:
        j = n - 1
    if j in (0, n - 1):
        j += 1
    return set(order[:j])


def slow_d2f(case):
    order = by_confidence(case["block"])
    above = {i for i in order if case["block"][i] > case["threshold"]}
    return above if above or not case["activated"] else {order[0]}


def slow_dynamic(case):
    order = by_confidence(case["block"])
    above = {i for i in order if case["block"][i] > case["threshold"]}
    return above if len(above) >= case["quota"] else slow_low_confidence(case)


def slow_sequential(case):
    return set([i for i, score in enumerate(case["block"]) if score != MISSING][: case["quota"]])


def slow_paced_threshold(case):
    """Fast-dLLM's Dream without a cache: of the k best, the first always, the others if they reach the threshold."""
    best = by_confidence(case["block"])[: case["quota"]]
    return {i for rank, i in enumerate(best) if rank == 0 or case["block"][i] >= case["threshold"]}


def slow_origin(case):
    """The block's numbers are draws."""
    return {i for i, draw in enumerate(case["block"]) if draw != MISSING and draw < case["share"]}


def slow_entropy_bound(case):
    """The block's numbers are entropies, taken in ascending order as long as those before are within the bound."""
    order = sorted((i for i, h in enumerate(case["block"]) if h != MISSING), key=lambda i: (case["block"][i], i))
    accepted, before = set(), 0.0
    for i in order:
        if before <= case["entropy_bound"]:
            accepted.add(i)
        before += case["block"][i]
    return accepted


# Rules that go by something of which less is surer; their score is its negative.
NEGATED = {"origin", "entropy_bound"}

SLOW = {
    "dynamic": slow_dynamic,
    "sequential": slow_sequential,
    "paced_threshold": slow_paced_threshold,
    "maskgit_plus": slow_low_confidence,
    "topk_margin": slow_low_confidence,
    "entropy": slow_low_confidence,
    "origin": slow_origin,
    "joint_threshold": slow_dynamic,
    "entropy_bound": slow_entropy_bound,
    "low_confidence": slow_low_confidence,
    "threshold": slow_threshold,
    "factor": slow_factor,
    "d2f": slow_d2f,
}


@pytest.mark.parametrize("rule", sorted(RULES))
@given(cases=segments())
def test_rule_equals_its_slow_twin(rule, cases):
    assert run(rule, cases) == [SLOW[rule](case) for case in cases]


@pytest.mark.parametrize("rule", ["threshold", "factor", "d2f", "dynamic", "paced_threshold", "entropy_bound"])
@given(cases=segments())
def test_a_full_block_always_gets_on(rule, cases):
    for case in cases:
        case["activated"], case["quota"] = True, max(case["quota"], 1)
    assert all(run(rule, cases))


@pytest.mark.parametrize("rule", sorted(RULES))
@given(cases=segments())
def test_segments_do_not_touch_each_other(rule, cases):
    assert run(rule, cases) == [run(rule, [case])[0] for case in cases]


@pytest.mark.parametrize("rule", sorted(RULES))
@given(cases=segments())
def test_only_masked_positions_commit(rule, cases):
    for case, committed in zip(cases, run(rule, cases), strict=True):
        assert all(case["block"][i] != MISSING for i in committed)

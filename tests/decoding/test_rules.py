"""Every commit rule against a slow, obvious restatement of its reference, one block at a time."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decoding.slow_rules import MISSING, NEGATED, SLOW, slow_fallen, slow_unconfirmed
from unmask.decoding.rules import RULES, RuleParams, gap_bound
from unmask.params import RULE_TRAITS

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
            "anchor_threshold": draw(st.sampled_from([0.0, 0.4, 0.8, 1.0])),
            "radius": draw(st.integers(0, 6)),
            "low_threshold": draw(st.sampled_from([0.0, 0.2, 0.6, 1.0])),
            "verify_threshold": draw(st.sampled_from([0.0, 0.2, 0.6, 1.0])),
            "gap": draw(st.sampled_from([0.0, 0.4, 1.0])),
            "inner": draw(st.integers(1, 6)),
            "second": draw(st.lists(st.floats(0.0009765625, 1.0, width=32), min_size=6, max_size=6)),
            "activated": draw(st.booleans()),
        }
        for _ in range(count)
    ]


def run(rule: str, cases: list[dict]) -> list[set[int]]:
    return [set(row.nonzero().flatten().tolist()) for row in vote(rule, cases)]


def vote(rule: str, cases: list[dict]) -> torch.Tensor:
    score = torch.tensor([case["block"] for case in cases], dtype=torch.float64)
    missing = score == MISSING
    score = torch.where(missing, -torch.inf, -score if rule in NEGATED else score)
    seconds = (second_of(rule, cases),) if RULES[rule].by_two else ()
    return RULES[rule].commit(score, params_of(cases), *seconds)


def second_of(rule: str, cases: list[dict]) -> torch.Tensor:
    second = torch.tensor([case["second"] for case in cases], dtype=torch.float64)
    return {"eb": -second, "klass": second * 3}.get(rule, second)


def params_of(cases: list[dict]) -> RuleParams:
    names = [field.name for field in fields(RuleParams)]
    return RuleParams(**{name: torch.tensor([case[name] for case in cases], dtype=torch.float64) for name in names})


@pytest.mark.parametrize("rule", sorted(RULES))
@given(cases=segments())
def test_rule_equals_its_slow_twin(rule, cases):
    """The twin sees one segment at a time and only what is masked, so segments do not touch each other either."""
    committed = run(rule, cases)
    assert committed == [SLOW[rule](case) for case in cases]
    for case, positions in zip(cases, committed, strict=True):
        assert all(case["block"][i] != MISSING for i in positions)


@pytest.mark.parametrize("rule", sorted(set(RULES) - {"origin"}))
@settings(max_examples=30)
@given(cases=segments())
def test_a_full_block_always_gets_on(rule, cases):
    for case in cases:
        case["activated"], case["quota"], case["inner"] = True, max(case["quota"], 1), 6
    assert all(run(rule, cases))


@pytest.mark.parametrize(("rule", "slow"), [("saber", slow_fallen), ("wino", slow_unconfirmed)])
@given(cases=segments(), data=st.data())
def test_what_is_masked_again_equals_the_slow_twin(rule, slow, cases, data):
    for case in cases:
        case["quota"] = max(case["quota"], 1)
    standing = [data.draw(st.lists(st.floats(0.0, 1.0, width=32), min_size=6, max_size=6)) for _ in cases]
    commits = vote(rule, cases)
    missing = torch.tensor([[score == MISSING for score in case["block"]] for case in cases])
    now = torch.where(missing, torch.tensor(standing, dtype=torch.float64), -torch.inf)
    seconds = (second_of(rule, cases),) if RULES[rule].by_two else ()
    taken = RULES[rule].remask(commits, now, params_of(cases), *seconds)
    counts = commits.sum(dim=-1).tolist()
    assert [set(row.nonzero().flatten().tolist()) for row in taken] == [
        slow(*each) for each in zip(cases, standing, counts, strict=True)
    ]
    assert (taken.sum(dim=-1) < commits.sum(dim=-1)).all(), "every forward gains a token"


def test_rules_that_take_tokens_back_are_said_to():
    assert {rule for rule in RULES if RULES[rule].remask} == {rule for rule in RULES if RULE_TRAITS[rule].remasks}


@pytest.mark.parametrize(
    ("progress", "bound"), [(0.0, 7.5), (0.3, 7.5), (0.34, 5.0), (0.6, 5.0), (0.7, 2.5), (1.0, 2.5)]
)
def test_prophet_is_bolder_later(progress, bound):
    assert gap_bound(7.5, progress) == bound

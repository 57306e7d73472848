"""Forwards to go: estimated from requests that have ended, the better the further a request has come."""

from __future__ import annotations

import random
import statistics

import pytest

from tests.engine.queueing import sequence
from tests.engines import drain, make_loop, submit
from unmask.engine.estimate import LevelEstimator

MOST = 40


def ended(length: int, forwards: int, max_tokens: int = MOST):
    one = sequence("x", max_tokens=max_tokens)
    one.stats.committed, one.stats.forwards = length, forwards
    return one


def taught(*lengths: tuple[int, bool]) -> LevelEstimator:
    """An estimator that has seen answers of these lengths, at two tokens per forward, cut or not."""
    estimator = LevelEstimator()
    for length, cut in lengths:
        estimator.learn(ended(length, length // 2), cut=cut)
    return estimator


def on_arrival(estimator: LevelEstimator, max_tokens: int = MOST) -> float | None:
    one = sequence("new", max_tokens=max_tokens)
    estimator.expect(one)
    return one.stats.estimates[0]


def test_too_early_to_tell():
    assert on_arrival(LevelEstimator()) is None
    assert on_arrival(taught(*[(20, False)] * 7)) is None
    assert on_arrival(taught(*[(20, False)] * 8)) == pytest.approx(10)


def test_the_mean_of_what_has_ended_within_the_budget():
    mixed = taught(*[(8, False), (16, False), (24, False), (40, False)] * 3)
    assert on_arrival(mixed) == pytest.approx((4 + 8 + 12 + 20) / 4)
    assert on_arrival(mixed, max_tokens=16) == pytest.approx((4 + 8 + 8 + 8) / 4)


def test_an_answer_that_was_cut_only_says_that_it_is_longer():
    """Nothing but answers cut at 8 tokens: a request that may have 40 is expected to use them."""
    assert on_arrival(taught(*[(8, True)] * 10)) == pytest.approx(20)
    # Half end at 8; of those that do not nothing is known but that they reach 8, so they may reach 40.
    assert on_arrival(taught(*[(8, True), (8, False)] * 10)) == pytest.approx((4 + 20) / 2)


def test_a_request_that_has_come_far_is_compared_with_those_that_went_as_far():
    estimator = taught(*[(8, False)] * 10, *[(40, False)] * 10)
    one = sequence("long", max_tokens=MOST)
    one.stats.committed, one.stats.forwards, one.stats.first_block = 12, 6, 1.0
    estimator.follow(one)
    assert one.stats.estimates[1] == pytest.approx(20)


def test_its_own_speed_counts_more_the_longer_it_runs():
    estimator = taught(*[(40, False)] * 10)  # two tokens per forward
    estimates = []
    for forwards in (4, 12, 36):
        one = sequence("slow", max_tokens=MOST)
        one.stats.committed, one.stats.forwards, one.stats.first_block = forwards, forwards, 1.0  # one per forward
        estimator.follow(one)
        estimates.append(one.stats.estimates[1])
    assert estimates == sorted(estimates)
    assert estimates[0] == pytest.approx(4 + 36 / ((4 + 4 * 2) / 8))


def test_after_the_first_block_it_errs_less_than_on_arrival():
    """A mix of tasks, short and long, hard (one token per forward) and easy (three), in blocks of four."""
    chance, estimator = random.Random(1), LevelEstimator()
    errors: dict[str, list[float]] = {"arrival": [], "first_block": []}
    for _ in range(400):
        blocks, speed = chance.choice([2, 3, 8, 9]), chance.choice([1, 3])
        forwards = 4 * blocks // speed
        one = sequence("x", max_tokens=MOST)
        estimator.expect(one)
        one.stats.committed, one.stats.forwards, one.stats.first_block = 4, max(1, 4 // speed), 1.0
        estimator.follow(one)
        for when, estimate in zip(errors, one.stats.estimates, strict=True):
            if estimate is not None:
                errors[when].append(abs(estimate - forwards) / forwards)
        one.stats.committed, one.stats.forwards = 4 * blocks, forwards
        estimator.learn(one, cut=False)
    assert statistics.mean(errors["first_block"]) < 0.75 * statistics.mean(errors["arrival"])


def test_a_loop_estimates_each_kind_of_request_by_itself():
    loop = make_loop("unmask-tiny")
    prompt = [1, *range(30, 60), 3]
    fixed = {"max_tokens": 32, "block_length": 16, "ignore_eos": True, "steps": 4}
    for number in range(8):
        submit(loop, str(number), prompt, rule="low_confidence", **fixed)
    assert all(result.stats.estimates == (None, None) for result in drain(loop).values())
    submit(loop, "same", prompt, rule="low_confidence", **fixed)
    submit(loop, "other", prompt, rule="sequential", **fixed)
    results = drain(loop)
    assert results["same"].stats.forwards == 8
    assert results["same"].stats.estimates == (pytest.approx(8), pytest.approx(8))
    assert results["other"].stats.estimates == (None, None)

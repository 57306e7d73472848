"""Budgets that refill with time, under any schedule."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.errors import InsufficientScopeError, RateLimitError, TokenBudgetError
from unmask.params import GenerationParams
from unmask.serving.security.account import KeyAccount
from unmask.serving.security.bucket import TokenBucket
from unmask.serving.security.key import Key

limits = st.integers(1, 10**6)
periods = st.sampled_from([60.0, 86400.0])
gaps = st.floats(0, 200)


@given(limits, periods, st.lists(st.tuples(gaps, st.integers(1, 10**6)), max_size=40))
def test_no_window_of_time_spends_more_than_it_may(limit, period, asks):
    """Whoever asks first spends; then between any two moments: the limit, what flowed in, and the last overdraft."""
    bucket, now, spent = TokenBucket(limit, period, 0.0), 0.0, []
    for gap, amount in asks:
        now += gap
        if bucket.has(1, now):
            bucket.spend(amount, now)
            spent.append((now, amount))
        assert bucket.level(now) <= limit
    for first in range(len(spent)):
        for last in range(first, len(spent)):
            window = spent[last][0] - spent[first][0]
            before_the_last = sum(amount for _, amount in spent[first:last])
            assert before_the_last <= limit * (1 + window / period) + 1e-3


@given(limits, periods, st.lists(st.tuples(gaps, st.integers(1, 10**6)), max_size=20), st.data())
def test_what_is_promised_after_a_wait_is_there_and_not_much_sooner(limit, period, spendings, data):
    bucket, now = TokenBucket(limit, period, 0.0), 0.0
    for gap, amount in spendings:
        now += gap
        bucket.spend(amount, now)
    amount = data.draw(st.integers(1, limit))
    wait = bucket.wait(amount, now)
    assert (wait == 0) == (bucket.level(now) >= amount)
    assert bucket.has(amount, now + wait)
    assert bucket.has(amount, now + math.ceil(wait))
    if wait > 1e-3:
        assert not bucket.has(amount, now + wait * 0.99 - 1e-3 * period / limit)


@given(limits, limits, st.integers(0, 10**6), gaps)
def test_another_size_keeps_the_debt_and_gives_nothing_away(limit, other, spent, gap):
    bucket = TokenBucket(limit, 60.0, 0.0)
    bucket.spend(spent, 0.0)
    left = bucket.level(gap)
    assert bucket.resized(other, 60.0, gap).level(gap) == min(left, other)


def test_time_that_goes_back_gives_nothing():
    bucket = TokenBucket(60, 60.0, 100.0)
    bucket.spend(60, 100.0)
    bucket.spend(0, 50.0)
    assert bucket.level(101.0) == pytest.approx(1.0)


def account(**limits) -> KeyAccount:
    return KeyAccount(Key(name="ann", sha256="0" * 64, **limits), now=0.0)


def test_a_rate_refuses_until_the_time_it_names():
    one = account(requests_per_minute=2)
    one.begin("generate", 0.0)
    one.begin("models", 0.0)
    with pytest.raises(RateLimitError) as refusal:
        one.begin("models", 0.0)
    assert refusal.value.retry_after == 30
    with pytest.raises(RateLimitError):
        one.begin("models", 29.0)
    one.begin("models", 30.0)


def test_the_budget_that_takes_longest_to_refill_is_named():
    one = account(tokens_per_minute=100, tokens_per_day=1000)
    one.begin("generate", 0.0)
    one.charge(1500, 0.0)
    with pytest.raises(TokenBudgetError, match="1000 tokens per day") as refusal:
        one.begin("generate", 60.0)
    assert refusal.value.retry_after == math.ceil(501 * 86.4 - 60)
    one.begin("models", 60.0)  # costs no tokens
    one.begin("generate", 60.0 + refusal.value.retry_after)


def test_headers_tell_what_is_left_of_the_tighter_budget():
    one = account(requests_per_minute=60, tokens_per_minute=600, tokens_per_day=100)
    one.begin("generate", 0.0)
    one.charge(10, 0.0)
    assert one.headers(0.0) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "90",
        "x-ratelimit-reset-tokens": "8640s",
    }
    assert account().headers(0.0) == {}


def test_a_key_for_batch_work_makes_batch_requests():
    one = account(priority="batch")
    assert one.bound(GenerationParams(seed=7)) == GenerationParams(seed=7, priority="batch")
    with pytest.raises(InsufficientScopeError) as refusal:
        one.bound(GenerationParams(priority="interactive"))
    assert refusal.value.param == "priority"
    assert account().bound(GenerationParams(priority="interactive")).priority == "interactive"

"""What time ends: requests that wait too long, and those that take too long."""

from __future__ import annotations

import time

import pytest

from tests.engine.queueing import INFO, denoise, sequence
from tests.engines import absorb, drain, generate, make_loop
from unmask import LLM, GenerationParams
from unmask.engine import wire
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.engine.timeouts import end_overdue
from unmask.errors import InvalidValueError
from unmask.events import wire_finish
from unmask.resolve import resolve
from unmask.terms import NO_TIMEOUTS, Terms, Timeouts, resolve_terms

PROMPT = [1, *range(30, 60), 3]
LONG = {"max_tokens": 200, "ignore_eos": True, "rule": "low_confidence"}


def scheduler(max_running: int = 1) -> Scheduler:
    return Scheduler(max_running, 1000, KeyValueMemory(PageLedger(100)))


def test_one_that_waits_too_long_ends_with_an_error_and_others_stay():
    running, waiting = scheduler(), sequence("late", queue_timeout=5.0)
    running.submit(sequence("first", max_tokens=40, queue_timeout=5.0))
    running.submit(waiting)
    running.submit(sequence("patient"))
    denoise(running, running.plan(0.0), 0.0)
    assert end_overdue(running, 4.9) == []
    [(ended, event)] = end_overdue(running, 5.0)
    assert ended is waiting
    assert event.error[0] == "queue_timeout"
    assert list(running.running) == ["first"], "one that was begun does not wait any more"
    assert [one.request_id for one in running.waiting] == ["patient"]


def test_one_that_takes_too_long_ends_with_what_is_decided():
    running, slow = scheduler(), sequence("slow", max_tokens=12, timeout=10.0)
    running.submit(slow)
    told = []
    for now in range(6):  # the first block has four positions
        denoise(running, running.plan(float(now)), float(now))
        if (event := slow.event()) is not None:
            told += event.token_ids
    assert end_overdue(running, 9.99) == []
    [(_, event)] = end_overdue(running, 10.0)
    assert (event.finish, event.ended_by_token, event.error) == ("timeout", False, None)
    assert told + event.token_ids == slow.canvas.tokens[4 : slow.canvas.text_end].tolist()
    assert len(told + event.token_ids) == 6
    assert event.stats.total == 10.0
    assert running.idle
    assert running._memory.ledger.in_use == 0


def test_the_total_timeout_counts_waiting_and_one_without_a_forward_is_an_error():
    running = scheduler()
    running.submit(sequence("first", max_tokens=40))
    running.submit(sequence("second", timeout=3.0, queue_timeout=5.0))
    denoise(running, running.plan(0.0), 0.0)
    [(_, event)] = end_overdue(running, 3.0)
    assert (event.request_id, event.error[0]) == ("second", "queue_timeout")


def test_one_that_was_begun_and_waits_again_keeps_its_text():
    """An engine may take a request's memory away: its queue timeout is over all the same."""
    running, evicted = scheduler(), sequence("evicted", max_tokens=12, timeout=10.0, queue_timeout=2.0)
    running.submit(evicted)
    denoise(running, running.plan(0.0), 0.0)
    running._evict(evicted)
    assert end_overdue(running, 5.0) == []
    [(_, event)] = end_overdue(running, 10.0)
    assert event.finish == "timeout"
    assert len(event.token_ids) == 1
    assert running.idle


def test_a_timed_out_answer_is_a_prefix_of_the_whole_one():
    loop = make_loop("unmask-tiny")
    whole = generate(loop, PROMPT, **LONG).ids
    params = resolve(GenerationParams(**LONG), loop.model, len(PROMPT))
    begun = time.monotonic()
    loop.send(wire.Submit("cut", PROMPT, params, Terms(timeout=0.15)))
    results = {}
    while time.monotonic() < begun + 0.15:
        absorb(loop.step(), results)
    result = drain(loop, results)["cut"]
    assert result.finish == "timeout"
    assert result.stats.total >= 0.15
    assert 0 < len(result.ids) < 200
    assert result.ids == whole[: len(result.ids)]


def test_a_cancel_that_crosses_a_timeout_changes_nothing():
    """Both orders: the engine reports one end or none, and holds nothing."""
    loop = make_loop("unmask-tiny", max_running=1)
    params = resolve(GenerationParams(**LONG), loop.model, len(PROMPT))
    for cancel_first in (True, False):
        for name in ("running", "waiting"):
            terms = Terms(timeout=0.05, queue_timeout=0.05)
            loop.send(wire.Submit(name, PROMPT, params, terms))
        loop.step()
        time.sleep(0.06)
        reports = []
        if not cancel_first:
            reports.append(loop.step())
        for name in ("running", "waiting"):
            loop.send(wire.Cancel(name))
        reports.append(loop.step())
        ended = [event.request_id for report in reports for event in report.events if event.last]
        assert ended == ([] if cancel_first else ["waiting", "running"])
        assert loop.idle
        assert reports[-1].stats.pages_in_use == 0


def test_in_python_a_timeout_is_a_finish_reason():
    llm = LLM(device="cpu", threads=1)
    [answer] = llm.generate("one two", GenerationParams(timeout_ms=150, **LONG | {"max_tokens": 500}), raw=True)
    assert answer.finish_reason == "timeout"
    assert answer.terms.timeout == 0.15
    assert wire_finish(answer.finish_reason) == "length"


def terms(timeouts: Timeouts = NO_TIMEOUTS, **said) -> Terms:
    return resolve_terms(GenerationParams(**said), INFO, sequence("x").params, timeouts, "me")


def test_terms_are_the_requests_within_the_servers():
    assert terms() == Terms(tenant="me")
    assert terms(Timeouts(30, 60)) == Terms(tenant="me", queue_timeout=30, timeout=60)
    said = terms(Timeouts(30, 60), priority="batch", deadline_ms=1500, timeout_ms=59_999)
    assert said == Terms(priority="batch", tenant="me", deadline=1.5, queue_timeout=30, timeout=59.999)
    assert said.applied() == {"priority": "batch", "deadline_ms": 1500, "timeout_ms": 59_999}
    with pytest.raises(InvalidValueError) as caught:
        terms(Timeouts(30, 60), timeout_ms=60_001)
    assert caught.value.param == "timeout_ms"
    assert "60000" in caught.value.message


@pytest.mark.parametrize(
    "said",
    [
        {"priority": "high"},
        {"priority": 1},
        {"deadline_ms": 0},
        {"deadline_ms": True},
        {"deadline_ms": 1.5},
        {"timeout_ms": "5"},
        {"timeout_ms": 86_400_001},
        {"service_class": "none"},
    ],
)
def test_bad_terms_name_their_field(said):
    with pytest.raises(InvalidValueError) as caught:
        terms(**said)
    assert caught.value.param == next(iter(said))

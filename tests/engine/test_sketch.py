"""What frames tell of a canvas, and how often."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.engines import absorb, submit
from tests.infos import model_info
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.decoding.canvas import Canvas
from unmask.decoding.propose import Score
from unmask.decoding.rules import scoring_of
from unmask.decoding.windows import Decision
from unmask.engine import sketch, wire
from unmask.engine.sketch import Sketchbook, scored_by
from unmask.events import NO_TOKEN, RequestStats
from unmask.params import RULE_TRAITS, GenerationParams
from unmask.resolve import resolve

QUESTION = "Start with 9, add 12, subtract 5. What is the result?"
KINDS = {
    Score.PROBABILITY: "probability",
    Score.MARGIN: "margin",
    Score.NEGATIVE_ENTROPY: "entropy",
    Score.CHANCE: "chance",
}


@pytest.fixture
def every_frame(monkeypatch):
    monkeypatch.setattr(sketch, "_SECONDS_BETWEEN_FRAMES", 0.0)


@pytest.fixture(scope="module")
def prompt(loop):
    return PromptEncoder(EMBEDDED_MODEL, loop.model).encode([{"role": "user", "content": QUESTION}])


def run(loop, prompt, **params):
    """The events of one request, and its tokens."""
    submit(loop, "only", prompt, **params)
    events, results = [], {}
    while not loop.idle:
        report = wire.unpack_message(wire.pack(loop.step())[wire.HEADER.size :])  # as another process gets it
        absorb(report, results)
        events += report.events
    return events, results["only"].ids


@pytest.mark.parametrize(
    "params",
    [
        {"rule": "low_confidence"},
        {"rule": "threshold", "threshold": 0.8, "max_tokens": 40},
        {"rule": "d2f"},
        {"rule": "threshold", "lookahead": 3},
        {"rule": "saber"},
        {"rule": "wino", "temperature": 0.7, "seed": 3},
        {"rule": "low_confidence", "score": "entropy", "ignore_eos": True, "max_tokens": 32},
    ],
    ids=str,
)
def test_what_is_told_of_cells_agrees_with_their_tokens(loop, prompt, params, every_frame):
    events, ids = run(loop, prompt, frames=True, **params)
    assert ids == run(loop, prompt, **params)[1]
    told = committed = 0
    for event in events:
        drawn = event.frame
        told += len(event.token_ids)
        seen = len(drawn.tokens) - drawn.tail
        masked = [token == loop.model.mask_id for token in drawn.tokens]
        assert [forward == 0 for forward in drawn.decided] == masked[:seen]
        assert all(masked[seen:])
        assert len(drawn.confidence) == len(drawn.guesses) == seen
        assert all(forward <= event.stats.forwards for forward in drawn.decided)
        assert not any(masked[: drawn.committed])
        assert told <= drawn.committed <= len(drawn.tokens)
        assert committed <= drawn.committed
        committed = drawn.committed
        assert all(guess == NO_TOKEN for guess, masked in zip(drawn.guesses, masked, strict=False) if not masked)
        assert all(0 <= drawn.confidence[cell] <= 1 for cell, forward in enumerate(drawn.decided) if forward)
        assert drawn.tail % drawn.block_length == 0
        assert told <= drawn.end <= len(drawn.tokens)
    assert drawn.end == told == len(ids)


def test_cells_tell_when_and_how_surely_they_were_decided(loop, prompt, every_frame):
    events, _ = run(loop, prompt, frames=True, rule="threshold", threshold=0.9999, max_tokens=32)
    for before, after in pairwise(events):
        for cell, forward in enumerate(after.frame.decided):
            known = cell < len(before.frame.decided)
            if known and before.frame.decided[cell]:
                assert forward == before.frame.decided[cell]
            elif forward:
                assert before.stats.forwards < forward <= after.stats.forwards
    last = events[-1].frame
    in_forwards = [[c for c, f in zip(last.confidence, last.decided, strict=True) if f == n] for n in range(1, 99)]
    assert all(len(sure) <= 1 or min(sure) > 0.9999 for sure in in_forwards)
    guessed = [guess for event in events[:-1] for guess in event.frame.guesses if guess != NO_TOKEN]
    assert guessed


def test_what_is_taken_back_counts_as_edited(loop, prompt, every_frame):
    events, _ = run(loop, prompt, frames=True, rule="saber")
    taken_back = set()
    for before, after in pairwise(events):
        was, now = before.frame.decided, after.frame.decided
        taken_back |= {cell for cell, forward in enumerate(was) if forward and forward != now[cell]}
    assert taken_back
    assert taken_back <= set(events[-1].frame.edited)


def test_a_replaced_token_counts_as_edited():
    model = model_info("from_start")
    params = resolve(GenerationParams(rule="joint_threshold", frames=True), model, 2)
    canvas = Canvas([1, 2], params, model, model.end_ids)
    book = Sketchbook(canvas, params)
    for forward, (positions, tokens) in enumerate([([2, 3], [5, 6]), ([3], [7])], 1):
        canvas.commit(positions, tokens)
        book.note(Decision(positions, tokens), forward)
    drawn = book.frame(RequestStats(blocks=1))
    assert drawn.decided == [1, 2]
    assert drawn.edited == [1]
    assert drawn.first_block == 2
    assert drawn.block_length == 4
    assert drawn.tail == canvas.length - 4


@pytest.mark.parametrize("rule", RULE_TRAITS)
def test_scores_are_taken_for_what_they_are(rule):
    model = model_info("renoise" if RULE_TRAITS[rule].renoises else "full", rules=(rule,))
    for score in ("probability", "margin", "entropy"):
        said = {"score": score} if "score" in RULE_TRAITS[rule].options else {}
        params = resolve(GenerationParams(rule=rule, **said), model, 2)
        assert scored_by(params) == KINDS[scoring_of(params).kind]


def test_frames_come_no_more_often_than_twenty_times_a_second(loop, prompt):
    events, ids = run(loop, prompt, frames=True, rule="low_confidence", ignore_eos=True, max_tokens=200)
    times = [event.stats.total for event in events if event.frame is not None]
    assert len(times) > 3
    assert all(later - earlier >= 0.05 for earlier, later in pairwise(times[:-1]))
    assert events[0].frame is not None
    assert events[-1].frame.tokens[: len(ids)] == ids
    assert len(times) < events[-1].stats.forwards

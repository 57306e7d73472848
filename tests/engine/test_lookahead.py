"""Lookahead changes how many forwards a request takes, and nothing else of it; neighbours do not notice."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_families import FAMILIES, PARAMS
from tests.engine.test_independence import PROMPT, mixed_requests
from tests.engines import absorb, drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from tests.infos import model_info
from tests.serving.test_heldout import questions
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.prompts import PromptEncoder
from unmask.engine import wire
from unmask.engine.sequence import Sequence
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.models import precision
from unmask.params import RULE_TRAITS, GenerationParams
from unmask.resolve import resolve

MOST = 16


@pytest.fixture(scope="module")
def loop():
    """The embedded model in float64: it is so sure of its answers that in float32 many scores are equal but for
    rounding, which depends on the number of rows, and with it the order of commits in any batch.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "choose_dtype", lambda *asked: (torch.float64, "for the test"))
        loop = make_loop(EMBEDDED_MODEL, max_running=40)
    yield loop
    assert loop.idle


@pytest.fixture
def canvases(monkeypatch):
    """Every canvas that each request stood at, by request: tokens and masks after every applied decision."""
    seen: dict[str, list] = {}
    apply = Sequence.apply

    def recording(sequence, *arguments, **options):
        newly = apply(sequence, *arguments, **options)
        canvas = (sequence.canvas.tokens.tolist(), sequence.canvas.masked.tolist())
        seen.setdefault(sequence.request_id, []).append(canvas)
        return newly

    monkeypatch.setattr(Sequence, "apply", recording)
    return seen


def outcome(result):
    """Everything about a request but its forwards, its drafts, and the time it took."""
    return result.ids, result.finish, result.ended_by_token, result.error, result.stats.committed, result.stats.blocks


def compare(loop, canvases, prompt, lookahead, **params):
    """One request step by step and looking ahead: the same but for fewer forwards. Both results."""
    results = []
    for depth in (0, lookahead):
        canvases.clear()
        result = generate(loop, prompt, lookahead=depth, **params)
        results.append((result, canvases["only"].copy()))
    (plain, walked), (ahead, jumped) = results
    assert outcome(ahead) == outcome(plain), params
    assert jumped == walked, params
    assert ahead.stats.forwards == plain.stats.forwards - ahead.stats.drafts_accepted
    assert plain.stats.drafts == 0
    return plain, ahead


def heldout(loop, count):
    encoder = PromptEncoder(EMBEDDED_MODEL, loop.model)
    return [encoder.encode(entry["messages"]) for entry in questions()[:count]]


SETTINGS = [
    ({"rule": "low_confidence"}, 6, 1.8),
    ({"rule": "threshold", "threshold": 1.0}, 6, 1.8),
    ({"rule": "d2f", "threshold": 1.0}, 6, 1.8),
    ({"rule": "low_confidence", "steps": 4}, 20, 1.3),
    ({"rule": "d2f", "threshold": 0.9}, 20, 1.0),
    ({"rule": "dynamic", "threshold": 0.9}, 20, 1.0),
]


@pytest.mark.parametrize(("params", "count", "fewer"), SETTINGS)
def test_heldout_prompts_take_the_same_way_in_fewer_forwards(loop, canvases, params, count, fewer):
    pairs = [compare(loop, canvases, prompt, 4, max_tokens=64, **params) for prompt in heldout(loop, count)]
    before, after = (sum(result.stats.forwards for result in results) for results in zip(*pairs, strict=True))
    assert before >= fewer * after


@pytest.mark.parametrize("params", [{"rule": "low_confidence", "steps": 4}, {"rule": "d2f", "threshold": 0.95}])
def test_heldout_prompts_get_the_same_answers_in_float32(params):
    loop = make_loop(EMBEDDED_MODEL)
    for prompt in heldout(loop, 20):
        plain, ahead = (generate(loop, prompt, lookahead=depth, max_tokens=64, **params) for depth in (0, 8))
        assert outcome(ahead) == outcome(plain)


@pytest.fixture(scope="module", params=[*PARAMS, "llada as block_causal", "dream as block_causal"])
def family(request, golden, tmp_path_factory):
    """A random model of each family that may look ahead."""
    name, _, attention = request.param.partition(" as ")
    if name == "diffusion_gemma":
        pytest.skip("it has no masks to guess at")
    path = served_copy(golden / FAMILIES[name], tmp_path_factory.mktemp("family"))
    return make_loop(path, max_running=16, max_context=128, attention=attention or None)


def test_every_family_rule_and_cache(family, canvases):
    """Random models are unsure of everything: guesses often fail, blocks end at any place."""
    model, accepted = family.model, 0
    jobs = [{"rule": rule} for rule in model.rules if RULE_TRAITS[rule].foreseeable]
    jobs += [{"cache": cache, "steps": 6} for cache in model.caches]
    jobs += [{"temperature": 0.3, "seed": 7, "top_p": 0.9}, {"min_tokens": 5, "early_exit": True}, {"cfg_scale": 0.7}]
    for number, job in enumerate(jobs):
        if "threshold" in RULE_TRAITS[job.get("rule", model.rules[0])].options:
            job["threshold"] = (0.02, 0.9)[number % 2]
        prompt = [(7 * number + 11 * place) % 240 + 2 for place in range((1, 3, 8, 9, 17)[number % 5])]
        job = {"block_length": 8, "max_tokens": 14, "temperature": 0.0} | job
        _, ahead = compare(family, canvases, prompt, (2, 4, 9)[number % 3], **job)
        accepted += ahead.stats.drafts_accepted
    assert accepted > 5


REQUESTS = st.fixed_dictionaries(
    {
        "rule": st.sampled_from([rule for rule in RULE_TRAITS if RULE_TRAITS[rule].foreseeable]),
        "block_length": st.sampled_from([1, 5, 8, 32]),
        "max_tokens": st.integers(1, 30),
        "lookahead": st.integers(1, MOST),
        "ignore_eos": st.booleans(),
        "early_exit": st.booleans(),
        "cache": st.sampled_from(["exact", "none"]),
        "end_tokens": st.sampled_from(["free", "never"]),
        "cfg_scale": st.sampled_from([0.0, 0.0, 0.7]),
        "temperature": st.sampled_from([0.0, 0.0, 0.5]),
    }
)


@settings(max_examples=8)
@given(request=REQUESTS, threshold=st.floats(0, 1), length=st.integers(1, 70), seed=st.integers(0, 99))
def test_any_request(loop, request, threshold, length, seed):
    if request["rule"] not in loop.model.rules:
        request["rule"] = "d2f"
    if "threshold" in RULE_TRAITS[request["rule"]].options:
        request["threshold"] = threshold
    prompt = random.Random(seed).choices(range(20, 1000), k=length)
    plain = generate(loop, prompt, seed=seed, **request | {"lookahead": 0})
    ahead = generate(loop, prompt, seed=seed, **request)
    assert outcome(ahead) == outcome(plain)
    assert ahead.stats.forwards == plain.stats.forwards - ahead.stats.drafts_accepted


def test_neighbours_do_not_notice(loop):
    """Requests that look ahead and others, some cancelled, in one batch: each gets what it gets alone."""
    requests = mixed_requests(4, count=8)
    alone = {name: outcome(generate(loop, prompt, **params)) for name, (prompt, params) in requests.items()}
    results = {}
    for number, (name, (prompt, params)) in enumerate(requests.items()):
        submit(loop, name, prompt, lookahead=(0, 3, 8)[number % 3], **params)
        submit(loop, f"cancelled {name}", prompt, lookahead=8, **params)
        absorb(loop.step(), results)
        absorb(loop.step(), results)
        loop.send(wire.Cancel(f"cancelled {name}"))
    drain(loop, results)
    assert {name: outcome(results[name]) for name in requests} == alone
    assert any(results[name].stats.drafts_accepted for name in requests)


def test_cancelling_leaves_nothing(loop):
    for steps in (1, 2, 3, 6):
        submit(loop, "ahead", PROMPT, lookahead=8, rule="low_confidence", max_tokens=64)
        for _ in range(steps):
            loop.step()
        loop.send(wire.Cancel("ahead"))
        assert loop.step().stats.pages_in_use == 0


def test_pages_of_drafts_are_given_back_after_each_step(loop):
    submit(loop, "ahead", PROMPT, lookahead=8, rule="low_confidence", max_tokens=64, ignore_eos=True)
    for _ in range(5):
        stats = loop.step().stats
        sequence = loop._scheduler.running["ahead"]
        assert stats.pages_in_use == len({*sequence.held.pages[0], *sequence.held.pinned})
    assert drain(loop)["ahead"].stats.drafts > 20


def test_a_step_that_fails_leaves_nothing(loop, monkeypatch):
    submit(loop, "ahead", PROMPT, lookahead=8, rule="low_confidence", max_tokens=64)
    loop.step()
    with monkeypatch.context() as patch:
        patch.setattr(loop._runner.model, "forward", lambda *arguments: 1 / 0)
        (event,) = loop.step().events
    assert event.error is not None
    assert loop.step().stats.pages_in_use == 0


def rows_of_steps(loop):
    """The rows of each step until idle, and what came of the requests."""
    results, rows = {}, [loop.stats.rows]
    while not loop.idle:
        absorb(loop.step(), results)
        rows.append(loop.stats.rows)
    return [after - before for before, after in pairwise(rows)], results


def test_no_drafts_while_requests_wait():
    loop = make_loop(EMBEDDED_MODEL, max_running=1)
    params = {"rule": "low_confidence", "max_tokens": 32, "ignore_eos": True, "lookahead": 8}
    submit(loop, "first", PROMPT, **params)
    submit(loop, "second", PROMPT, **params)
    results = drain(loop)
    assert results["first"].stats.drafts == 0
    assert results["second"].stats.drafts > 0
    assert results["first"].ids == results["second"].ids


@pytest.mark.parametrize("limit", ["max_rows", "draft_rows"])
@pytest.mark.parametrize("max_rows", [1, 40, 70, 100])
def test_drafts_take_no_rows_beyond_the_budget(limit, max_rows):
    loop = make_loop(EMBEDDED_MODEL, max_running=4, **{limit: max_rows})
    submit(loop, "only", PROMPT, rule="low_confidence", max_tokens=40, ignore_eos=True, lookahead=16)
    rows, results = rows_of_steps(loop)
    drafts = results["only"].stats.drafts
    assert max(rows[1:]) <= max(max_rows, 32)  # a request's own: a finished block and the next
    assert (drafts == 0) == (max_rows < (48 if limit == "max_rows" else 32))


def test_drafts_take_no_pages_that_are_not_there():
    loop = make_loop(EMBEDDED_MODEL, max_running=2, max_context=64, kv_tokens=128)
    prompt = PROMPT[:8]
    submit(loop, "first", prompt, rule="low_confidence", max_tokens=56, ignore_eos=True, lookahead=16)
    first = drain(loop)["first"]
    for name in ("first", "second"):
        submit(loop, name, prompt, rule="low_confidence", max_tokens=56, ignore_eos=True, lookahead=16)
    both = drain(loop)
    assert first.stats.drafts > 0
    assert both["first"].stats.drafts == 0
    assert both["first"].ids == both["second"].ids == first.ids


@pytest.mark.parametrize("value", [-1, MOST + 1, 2.0, True])
def test_values_out_of_range_are_refused(value):
    with pytest.raises(InvalidValueError, match="lookahead"):
        resolve(GenerationParams(lookahead=value), model_info(), 4)


@pytest.mark.parametrize(
    ("kind", "params"), [("full", {"rule": "origin"}), ("full", {"rule": "entropy", "alg_temp": 0.5}), ("renoise", {})]
)
def test_what_cannot_be_foreseen_is_refused(kind, params):
    with pytest.raises(UnsupportedValueError) as refused:
        resolve(GenerationParams(lookahead=2, **params), model_info(kind), 4)
    assert refused.value.param == "lookahead"

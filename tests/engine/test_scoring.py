"""Scores of known tokens: those of one plain forward for each token, alone and without a cache."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from tests.engine.test_families import FAMILIES
from tests.engines import make_loop, submit
from tests.golden.checkpoints import served_copy
from tests.golden.forward import logits_of
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.decoding.grid import Grid
from unmask.engine import wire
from unmask.errors import UnsupportedValueError
from unmask.events import RequestStats, TokenLogprob
from unmask.scoring import scoring_params
from unmask.terms import PLAIN, Terms

BLOCK = 8
SCORABLE = [name for name in FAMILIES if name not in ("llada_gqa", "llada_moe", "diffusion_gemma")]


def tokens(count, seed=0):
    return [(7 * n * n + 11 * n + 5 * seed) % 240 + 2 for n in range(count)]


def send(loop, name, ids, alternatives=2, block_length=BLOCK, terms=PLAIN):
    params = scoring_params(ids, loop.model, alternatives, block_length)
    loop.send(wire.Submit(name, ids[:1], params, terms))


@dataclass
class Told:
    """What a request was told."""

    ids: list[int] = field(default_factory=list)
    entries: list[TokenLogprob] = field(default_factory=list)
    stats: RequestStats | None = None


def step(loop, told):
    for event in loop.step().events:
        assert event.error is None, event.error
        of_request = told.setdefault(event.request_id, Told())
        of_request.ids += event.token_ids
        of_request.entries += event.logprobs or []
        of_request.stats = event.stats


def gather(loop, told=None):
    """Step until idle; what each request was told."""
    told = {} if told is None else told
    while not loop.idle:
        step(loop, told)
    return told


def score(loop, ids, **how):
    send(loop, "only", ids, **how)
    return gather(loop)["only"]


def slow_scores(loop, ids, count, block_length=BLOCK):
    """Each token by a forward of its own: (log-probability, the best ``count`` alternatives)."""
    model, info = loop._runner.model, loop.model
    found = []
    for position in range(1, len(ids)):
        length, visible = len(ids), None
        if info.attention == "block_causal":
            grid = Grid.covering(1, info.anchor, block_length, len(ids) - 1, info.context_length)
            length, visible = grid.length, grid.block_ends(0, grid.length).tolist()
        canvas = ids[:position] + [info.mask_id] * (length - position)
        logits = logits_of(model, canvas, visible=visible)[position - info.shifted].double()
        own = logits.log_softmax(-1)
        chosen = own[ids[position]].item()
        own[info.mask_id] = -math.inf
        found.append((chosen, own.topk(count).values.tolist()))
    return found


@pytest.fixture(scope="module", params=[*SCORABLE, "tiny"])
def loop(request, golden, tmp_path_factory):
    """Every family of masks, and the embedded model, which is block-causal from the prompt's end on."""
    if request.param == "tiny":
        return make_loop(EMBEDDED_MODEL, max_context=256)
    path = served_copy(golden / FAMILIES[request.param], tmp_path_factory.mktemp("family"))
    return make_loop(path, max_context=256)


@pytest.mark.parametrize("count", [2, 9, 27])
def test_scores_are_those_of_a_forward_for_each_token(loop, count):
    ids = tokens(count)
    told = score(loop, ids)
    expected = slow_scores(loop, ids, 2)
    assert [entry.token_id for entry in told.entries] == told.ids == ids[1:]
    for entry, (chosen, best) in zip(told.entries, expected, strict=True):
        assert entry.logprob == pytest.approx(chosen, abs=2e-4)
        assert [value for _, value in entry.alternatives] == pytest.approx(best, abs=2e-4)
        assert loop.model.mask_id not in dict(entry.alternatives)
    assert told.stats.forwards + told.stats.drafts_accepted == count - 1
    assert told.stats.drafts == told.stats.drafts_accepted


def check(loop, ids):
    expected = [chosen for chosen, _ in slow_scores(loop, ids, 1)]
    assert [entry.logprob for entry in score(loop, ids).entries] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("name", ["llada2", "fast_dllm_v2"])
def test_long_texts_cross_pages(golden, tmp_path, name):
    """What a chain of drafts makes final must have a place to stay."""
    check(make_loop(served_copy(golden / FAMILIES[name], tmp_path), max_context=128), tokens(75))


@pytest.mark.parametrize("name", ["llada", "dream"])
def test_models_made_block_causal_are_judged_block_by_block(golden, tmp_path, name):
    path = served_copy(golden / FAMILIES[name], tmp_path)
    check(make_loop(path, max_context=256, attention="block_causal"), tokens(22))


@pytest.mark.parametrize("name", ["llada", "dream", "llada2", "fast_dllm_v2"])
def test_company_drafts_and_arrival_change_nothing(golden, tmp_path, name):
    """Bit for bit, in a batch-invariant engine: alone without drafts, and in a crowd with as many as fit."""
    path = served_copy(golden / FAMILIES[name], tmp_path)
    lonely = make_loop(path, max_context=256, batch_invariant=True, draft_rows=0)
    crowded = make_loop(path, max_context=256, batch_invariant=True, max_running=8)
    texts = {str(n): tokens(n, seed=n) for n in (2, 9, 16, 31, 80)}
    alone = {number: score(lonely, ids) for number, ids in texts.items()}
    together = {}
    for number, ids in texts.items():
        send(crowded, number, ids)
        submit(crowded, f"{number} answers", ids, max_tokens=9, block_length=BLOCK)
        step(crowded, together)
    gather(crowded, together)
    for number, told in alone.items():
        assert together[number].entries == told.entries
        assert not told.stats.drafts
    assert any(together[number].stats.drafts for number in texts)


def test_an_answer_is_the_same_beside_scores(loop):
    prompts = {str(n): tokens(n, seed=1) for n in (3, 12)}
    settings = {"max_tokens": 10, "block_length": BLOCK, "lookahead": 2}
    for number, prompt in prompts.items():
        submit(loop, number, prompt, **settings)
    plain = gather(loop)
    for number, prompt in prompts.items():
        send(loop, f"score {number}", prompt)
        submit(loop, number, prompt, **settings)
    together = gather(loop)
    for number in prompts:
        assert together[number].ids == plain[number].ids


def test_a_batch_request_has_no_drafts_beside_an_interactive_one(loop):
    """What batch requests may add to a step is bounded, and evaluations are such requests."""
    ids = tokens(40)
    send(loop, "score", ids, terms=Terms(priority="batch"))
    submit(loop, "answer", tokens(5), max_tokens=BLOCK, block_length=BLOCK, rule="sequential", ignore_eos=True)
    told = {}
    while "answer" not in told or not told["answer"].ids:
        step(loop, told)
        assert "score" not in told or not told["score"].stats.drafts
    score = gather(loop, told)["score"]
    assert score.stats.drafts
    assert [entry.token_id for entry in score.entries] == ids[1:]


def test_while_others_wait_there_are_no_drafts(loop):
    ids = tokens(12)
    send(loop, "first", ids)
    for n in range(40):  # more than may run
        submit(loop, str(n), tokens(4), max_tokens=1, block_length=BLOCK)
    told = {}
    step(loop, told)
    assert len(loop._scheduler.waiting)
    assert told["first"].stats.drafts == 0
    first = gather(loop, told)["first"]
    assert [entry.logprob for entry in first.entries] == pytest.approx(
        [chosen for chosen, _ in slow_scores(loop, ids, 1)], abs=2e-4
    )


@pytest.mark.parametrize("name", ["llada", "llada2", "fast_dllm_v2"])
def test_end_tokens_are_tokens_like_others(golden, tmp_path, name):
    ending = make_loop(served_copy(golden / FAMILIES[name], tmp_path, end_id=9), max_context=64)
    assert ending.model.end_ids == (9,)
    check(ending, [5, 9, 9, 30, 9, 77])


@pytest.mark.parametrize("name", ["llada", "dream", "llada2", "fast_dllm_v2"])
def test_a_whole_context_can_be_scored(golden, tmp_path, name):
    check(make_loop(served_copy(golden / FAMILIES[name], tmp_path), max_context=36), tokens(36))


def test_scores_survive_eviction(golden, tmp_path):
    path = served_copy(golden / FAMILIES["llada2"], tmp_path)
    tight = make_loop(path, max_context=128, kv_tokens=256, max_running=8)
    roomy = make_loop(path, max_context=128)
    texts = {str(n): tokens(110 + n, seed=n) for n in range(5)}
    for number, ids in texts.items():
        send(tight, number, ids)
    together = gather(tight)
    assert sum(told.stats.evictions for told in together.values())
    for number, ids in texts.items():
        alone = [entry.logprob for entry in score(roomy, ids).entries]
        assert [entry.logprob for entry in together[number].entries] == pytest.approx(alone, abs=2e-5)


def test_a_cancelled_score_leaves_at_once(loop):
    send(loop, "left", tokens(60))
    loop.step()
    loop.send(wire.Cancel("left"))
    report = loop.step()
    assert loop.idle
    assert report.stats.pages_in_use == 0


def test_a_renoised_canvas_cannot_be_scored(golden, tmp_path):
    gemma = make_loop(served_copy(golden / FAMILIES["diffusion_gemma"], tmp_path), max_context=64)
    with pytest.raises(UnsupportedValueError, match="diffusion_gemma") as refusal:
        scoring_params([3, 4], gemma.model, 0, BLOCK)
    assert refusal.value.param == "logprobs"

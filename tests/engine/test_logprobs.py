"""Log-probabilities: those of an independent forward over the same canvas, one for each token of the text."""

from __future__ import annotations

import math

import pytest
import torch

from tests.engine.test_families import FAMILIES
from tests.engines import generate, make_loop, submit, trace
from tests.golden.checkpoints import served_copy
from tests.golden.forward import logits_of
from tests.logit_records import recorded_logits
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine import logprobs as logprobs_module
from unmask.engine import wire
from unmask.params import GenerationParams
from unmask.resolve import resolve

PROMPT = [1, 2, 100, 41, 230, 7, 96, 3]
SAMPLED = {"temperature": 1.0, "seed": 5, "top_p": 0.9}


def entries(loop, prompt, name="only", **params):
    """The ids of a request and its log-probabilities."""
    submit(loop, name, prompt, **params)
    return gather(loop)[name]


def gather(loop):
    """Step until idle; ids and log-probabilities by request."""
    told: dict[str, tuple[list, list]] = {}
    while not loop.idle:
        for event in loop.step().events:
            assert event.error is None, event.error
            ids, found = told.setdefault(event.request_id, ([], []))
            ids += event.token_ids
            found += event.logprobs or []
    return told


def bounds(prompt_length, length, block):
    """What each row sees under block-causal attention with the prompt as block 0."""
    ends = [prompt_length, *range(prompt_length + block, length, block), length]
    return [next(end for end in ends if row < end) for row in range(length)]


def reference(loop, prompt, count, **params):
    """Of each position, by a forward of its own over the canvas that committed it: (log-probability, alternatives)."""
    found, edited = {}, False
    forwards = trace(loop, prompt, **params)
    model, info = loop._runner.model, loop.model
    final = generate(loop, prompt, **params).ids
    for forward in forwards:
        visible = None
        if info.attention == "block_causal":
            anchor = 0 if info.anchor == "start" else len(prompt)
            visible = bounds(anchor, len(forward.canvas), params["block_length"])
        logits = logits_of(model, forward.canvas, visible=visible).double()
        for position in forward.committed:
            if position >= len(prompt) + len(final):
                continue
            edited |= position in found
            own = logits[position - info.shifted].log_softmax(-1)
            chosen = own[final[position - len(prompt)]].item()
            own[info.mask_id] = -math.inf
            found[position] = (chosen, [(index.item(), own[index].item()) for index in own.argsort(descending=True)])
    assert edited == (params["rule"] == "joint_threshold")
    return [(chosen, best[:count]) for _, (chosen, best) in sorted(found.items())]


@pytest.fixture(scope="module")
def toys(golden, tmp_path_factory):
    """Embedded block-causal model; full attention; the same with shifted logits; one whose tokens may be edited."""
    folder = tmp_path_factory.mktemp("toys")
    paths = {name: served_copy(golden / FAMILIES[name], folder) for name in ("llada", "dream", "llada2")}
    return {name: make_loop(path, max_context=256) for name, path in (paths | {"tiny": EMBEDDED_MODEL}).items()}


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize(
    ("toy", "rule"),
    [
        ("tiny", {"rule": "d2f"}),
        ("tiny", {"rule": "low_confidence", "steps": 4}),
        ("llada", {"rule": "low_confidence", "steps": 4}),
        ("llada", {"rule": "threshold", "threshold": 0.2}),
        ("dream", {"rule": "low_confidence", "steps": 3}),
        ("dream", {"rule": "entropy", "steps": 3}),
        ("llada2", {"rule": "joint_threshold", "threshold": 0.05, "edit_threshold": 0.01}),
    ],
)
def test_entries_are_those_of_a_forward_over_the_same_canvas(toys, toy, rule, sampling):
    params = {"max_tokens": 24, "block_length": 8, "ignore_eos": True} | rule | sampling
    ids, told = entries(toys[toy], PROMPT, logprobs=4, **params)
    expected = reference(toys[toy], PROMPT, 4, **params)
    assert len(ids) == len(told) == len(expected) == 24
    for token, entry, (chosen, best) in zip(ids, told, expected, strict=True):
        assert entry.token_id == token
        assert entry.logprob == pytest.approx(chosen, abs=2e-4)
        assert [value for _, value in entry.alternatives] == pytest.approx([value for _, value in best], abs=2e-4)
        assert len({index for index, _ in entry.alternatives}) == 4


@pytest.mark.parametrize("sampling", [{"temperature": 0.0}, {"temperature": 1.0, "seed": 5}], ids=["greedy", "sampled"])
def test_a_renoised_canvas_has_those_of_its_last_forward(golden, tmp_path, sampling):
    """Before the temperature of the schedule, for the likeliest tokens, which are the text."""
    loop = make_loop(served_copy(golden / FAMILIES["diffusion_gemma"], tmp_path), max_context=256)
    with recorded_logits(loop) as rows:
        params = {"max_tokens": 20, "block_length": 8, "steps": 4, "ignore_eos": True}
        ids, told = entries(loop, PROMPT, logprobs=2, **params | sampling)
    last = {row.position - len(PROMPT): row.logits.log_softmax(-1) for row in rows["only"]}  # forwards come in order
    for place, (token, entry) in enumerate(zip(ids, told, strict=True)):
        assert entry.token_id == token == last[place].argmax().item()
        assert entry.logprob == pytest.approx(last[place].max().item(), abs=1e-5)
        assert entry.alternatives[0] == (token, entry.logprob)


def test_greedy_commits_above_the_threshold_have_such_a_probability(toys):
    params = {"max_tokens": 48, "block_length": 16, "rule": "threshold", "threshold": 0.9, "ignore_eos": True}
    _, told = entries(toys["tiny"], PROMPT, logprobs=0, **params)
    forwards = trace(toys["tiny"], PROMPT, **params)
    together = [forward.committed for forward in forwards if len(forward.committed) > 1]
    assert together
    for committed in together:  # a single one may be the best of those below
        for position in committed:
            assert math.exp(told[position - len(PROMPT)].logprob) >= 0.9 - 1e-6


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, golden, tmp_path_factory):
    path = served_copy(golden / FAMILIES[request.param], tmp_path_factory.mktemp("family"))
    return make_loop(path, max_running=8, max_context=256, batch_invariant=True)


def test_every_family_tells_each_token_once_batched_or_alone(family):
    prompts = [[(7 * n + 11 * i) % 240 + 2 for i in range(n)] for n in (3, 8, 17, 30)]
    settings = [{"rule": rule} for rule in family.model.rules[:4]] + [{"temperature": 0.9, "seed": 4}]
    if "joint_threshold" in family.model.rules:
        settings.append({"rule": "joint_threshold", "edit_threshold": 0.01, "threshold": 0.4})
    common = {"max_tokens": 12, "block_length": 8, "temperature": 0.0}
    if family.model.denoiser == "renoise":
        common["steps"] = 5
    jobs = {str(n): (prompts[n % 4], common | chosen | {"logprobs": n}) for n, chosen in enumerate(settings)}
    alone = {name: entries(family, prompt, name, **params) for name, (prompt, params) in jobs.items()}
    for name, (prompt, params) in jobs.items():
        submit(family, name, prompt, **params)
        submit(family, f"{name} silent", prompt, **params | {"logprobs": None})
    together = gather(family)
    for name, (ids, told) in alone.items():
        assert [entry.token_id for entry in told] == ids
        assert all(entry.logprob <= 0 for entry in told)
        for entry in told:
            values = [value for _, value in entry.alternatives]
            assert len(values) == jobs[name][1]["logprobs"]
            assert values == sorted(values, reverse=True)
            assert family.model.mask_id not in dict(entry.alternatives)
            assert dict(entry.alternatives).get(entry.token_id, entry.logprob) == entry.logprob
        assert together[name] == (ids, told)  # bit for bit: the engine is batch-invariant
        assert together[f"{name} silent"] == (ids, [])


def test_requests_that_do_not_ask_cost_nothing(toys, monkeypatch):
    def fail(*_):
        raise AssertionError("nobody asked")

    monkeypatch.setattr(logprobs_module, "logprobs_of", fail)
    params = {"max_tokens": 16, "block_length": 8}
    ids, told = entries(toys["tiny"], PROMPT, **params)
    assert len(ids) > 0
    assert told == []


def test_only_the_rows_that_ask_are_computed(toys, monkeypatch):
    rows = []
    plain = logprobs_module.logprobs_of

    def counting(logits, *rest):
        rows.append(len(logits))
        return plain(logits, *rest)

    monkeypatch.setattr(logprobs_module, "logprobs_of", counting)
    params = {"max_tokens": 8, "block_length": 8, "rule": "low_confidence", "ignore_eos": True}
    for n in range(3):
        submit(toys["tiny"], f"silent {n}", PROMPT, **params)
    submit(toys["tiny"], "asks", PROMPT, logprobs=1, **params)
    gather(toys["tiny"])
    assert rows == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_bias_moves_the_likeliest_token_and_nobody_elses(toys):
    loop = toys["tiny"]
    params = {"max_tokens": 12, "block_length": 8, "ignore_eos": True}
    plain, _ = entries(loop, PROMPT, **params)
    banned, wanted = plain[0], 345
    for name, bias in (("ban", {banned: -100}), ("want", {wanted: 100}), ("plain", None)):
        submit(loop, name, PROMPT, logit_bias=bias, logprobs=1, **params)
    told = gather(loop)
    assert told["plain"][0] == plain
    assert banned not in told["ban"][0]
    assert told["want"][0] == [wanted] * 12
    assert all(entry.logprob == pytest.approx(0, abs=1e-4) for entry in told["want"][1])


def test_a_bias_is_added_before_everything_else(toys):
    """The confidences, hence the forwards, are those of the biased logits."""
    params = {"max_tokens": 8, "block_length": 8, "rule": "threshold", "threshold": 0.9, "ignore_eos": True}
    assert generate(toys["tiny"], PROMPT, logit_bias={345: 100}, **params).stats.forwards == 1
    assert generate(toys["tiny"], PROMPT, **params).stats.forwards > 1


def test_options_cross_the_process_border():
    params = resolve(GenerationParams(logprobs=3, logit_bias={5: -1}), make_loop(EMBEDDED_MODEL).model, 3)
    command = wire.Submit("x", [1], params)
    received = wire.unpack_command(wire.pack(command)[wire.HEADER.size :])
    assert received == command
    assert received.params.applied()["logprobs"] == 3
    assert received.params.applied()["logit_bias"] == {5: -1.0}
    assert (
        not {"logprobs", "logit_bias"}
        & resolve(GenerationParams(), make_loop(EMBEDDED_MODEL).model, 3).applied().keys()
    )


def test_the_least_is_no_infinity():
    logits = torch.tensor([[0.0, -1e30, -torch.inf]])
    found = logprobs_module.logprobs_of(logits, torch.tensor([1]), 20, None)
    assert found.chosen.tolist() == [-9999.0]
    assert found.values.tolist() == [[0.0, -9999.0, -9999.0]]

"""The delayed cache against a plain loop that recomputes every row and keeps an explicit array of what is cached."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.engines import absorb, drain, generate, make_loop, submit, trace
from tests.golden.checkpoints import MASK_ID, served_copy
from tests.infos import model_info
from unmask.errors import InvalidValueError
from unmask.models.attention import rotate, rotation
from unmask.params import RULE_TRAITS, GenerationParams
from unmask.resolve import resolve

FAMILIES = {"llada": "llada/ckpt", "llada_gqa": "llada/ckpt_gqa", "llada_moe": "llada_moe/ckpt", "dream": "dream/ckpt"}
PROMPT = [(7 * n + 3) % 240 + 2 for n in range(21)]


@pytest.fixture(scope="module", params=FAMILIES)
def loop(request, golden, tmp_path_factory):
    path = served_copy(golden / FAMILIES[request.param], tmp_path_factory.mktemp("delayed"))
    return make_loop(path, max_running=40)


def slow_hidden(model, tokens, cached, memory):
    """Hidden rows [L, D] of all positions; where ``cached`` [L], keys and values are those of ``memory``, one tensor
    [L, 2 * G, E] a layer, and elsewhere they go there.
    """
    shape, length = model.shape, len(tokens)
    heads, kv_heads, size = shape.heads, shape.kv_heads, shape.head_size
    hidden = F.embedding(tokens, model.embedding)
    cos, sin = rotation(torch.arange(length), model._frequencies)
    for layer, kept in zip(model.layers, memory, strict=True):
        qkv = layer.qkv(F.rms_norm(hidden, hidden.shape[-1:], layer.attention_norm, shape.norm_eps))
        qkv = qkv.view(length, -1, size)
        if layer.head_norm is not None:
            normed = F.rms_norm(qkv[:, : heads + kv_heads], (size,), eps=shape.norm_eps)
            qkv[:, : heads + kv_heads] = normed * layer.head_norm
        rotate(qkv[:, : heads + kv_heads, : shape.rotary_size], cos, sin)
        kept.copy_(torch.where(cached[:, None, None], kept, qkv[:, heads:]))
        key, value = (part.repeat_interleave(heads // kv_heads, dim=1) for part in kept.split(kv_heads, dim=1))
        weights = torch.einsum("qhe,khe->hqk", qkv[:, :heads], key).div(size**0.5).softmax(dim=-1)
        hidden = hidden + layer.output(torch.einsum("hqk,khe->qhe", weights, value).reshape(length, -1))
        hidden = hidden + layer.mlp(F.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, shape.norm_eps))
    return F.rms_norm(hidden, hidden.shape[-1:], model.final_norm, shape.norm_eps)


def slow_choice(probability, rule, step):
    """Which of the masked positions commit, by their ``probability`` [m]."""
    if "threshold" in rule:
        return (probability >= rule["threshold"]) | (probability == probability.max())
    length, steps = rule["block_length"], rule["steps"]
    quota = length // steps + (step < length % steps)
    return torch.isin(torch.arange(len(probability)), probability.topk(min(quota, len(probability))).indices)


@torch.inference_mode()
def slow_decode(model, prompt, max_tokens, block_length, interval, cfg_scale=0.0, **rule):
    """(rows computed, canvas before, positions committed) of every forward, and the last canvas."""
    tokens = torch.tensor(prompt + [MASK_ID] * max_tokens)
    masked = torch.arange(len(tokens)) >= len(prompt)
    memories = [[torch.zeros(len(tokens), 2 * model.shape.kv_heads, model.shape.head_size) for _ in model.layers]
                for _ in range(1 + bool(cfg_scale))]  # fmt: skip
    forwards = []
    for start in range(len(prompt), len(tokens), block_length):
        inside = (torch.arange(len(tokens)) >= start) & (torch.arange(len(tokens)) < start + block_length)
        decided_before, step = ~masked, 0
        while (masked & inside).any():
            refresh = step < 2 or step % interval == 0
            cached = decided_before & (not refresh)  # decided before the last forward, which computed them as such
            if model.spec.shifted:
                cached[:-1] &= ~masked[1:]
            logits = model.head(slow_hidden(model, tokens, cached, memories[0]))
            if cfg_scale:
                hidden_prompt = tokens.clone()
                hidden_prompt[: len(prompt)] = MASK_ID
                blind = model.head(slow_hidden(model, hidden_prompt, cached, memories[1]))
                logits = blind + (cfg_scale + 1) * (logits - blind)
            at = (masked & inside).nonzero().squeeze(1)
            of_masked = logits[at - int(model.spec.shifted)]
            proposals = of_masked.index_fill(1, torch.tensor([MASK_ID]), -torch.inf).argmax(dim=-1)
            probability = of_masked.double().softmax(dim=-1).gather(1, proposals[:, None]).squeeze(1)
            chosen = slow_choice(probability, rule | {"block_length": block_length}, step)
            forwards.append(((~cached).nonzero().squeeze(1).tolist(), tokens.tolist(), at[chosen].tolist()))
            decided_before = ~masked
            tokens[at[chosen]], masked[at[chosen]] = proposals[chosen], False
            step += 1
    return forwards, tokens.tolist()


REQUESTS = [
    {"max_tokens": 16, "block_length": 16, "steps": 16},
    {"max_tokens": 16, "block_length": 8, "steps": 8},
    {"max_tokens": 24, "block_length": 12, "steps": 5},
    {"max_tokens": 24, "block_length": 12, "threshold": 0.7},
    {"max_tokens": 12, "block_length": 12, "steps": 12, "cfg_scale": 1.5},
    {"max_tokens": 1, "block_length": 1, "steps": 1},
]


@pytest.mark.parametrize("interval", [1, 3, 1000])
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: "-".join(map(str, request.values())))
def test_every_forward_is_that_of_the_plain_loop(loop, request_, interval):
    prompt = PROMPT[: 1 if interval == 3 else 21]
    expected, canvas = slow_decode(loop._runner.model, prompt, interval=interval, **request_)
    ours = request_ | {"cache": "delayed", "refresh_interval": interval, "ignore_eos": True}
    ours |= {"rule": "threshold" if "threshold" in ours else "low_confidence"}
    forwards = trace(loop, prompt, **ours)
    assert [(forward.rows, forward.canvas, forward.committed) for forward in forwards] == expected
    assert generate(loop, prompt, **ours).ids == canvas[len(prompt) :]


def test_refreshing_in_every_forward_is_no_cache(loop):
    for settings in ({}, {"rule": "origin", "seed": 3}, {"temperature": 0.7, "seed": 5}, {"cfg_scale": 0.5}):
        settings = {"max_tokens": 16, "block_length": 8, **settings}
        none = generate(loop, PROMPT, cache="none", **settings)
        always = generate(loop, PROMPT, cache="delayed", refresh_interval=1, **settings)
        assert always.ids == none.ids
        assert (always.stats.forwards, always.stats.canvas_tokens) == (none.stats.forwards, none.stats.canvas_tokens)


def test_batched_with_any_other_request_as_alone(loop):
    """Rows that are not adjacent share steps with windows of every kind; guided requests have them twice."""
    common = {"max_tokens": 20, "block_length": 10, "ignore_eos": True}
    settings = [{"cache": cache} for cache in loop.model.caches]
    settings += [{"cache": "delayed", "refresh_interval": interval} for interval in (2, 5)]
    settings += [{"cache": "delayed", "rule": rule} for rule in loop.model.rules[1::3] if not RULE_TRAITS[rule].revises]
    settings += [{"cache": cache, "cfg_scale": 0.8} for cache in ("none", "delayed", "dual")]
    settings += [{"cache": "delayed", "temperature": 1.0, "seed": 11, "top_p": 0.9}]
    jobs = {str(n): (PROMPT[: 3 + 5 * (n % 4)], common | chosen) for n, chosen in enumerate(settings)}
    alone = {name: generate(loop, prompt, **chosen) for name, (prompt, chosen) in jobs.items()}
    results = {}
    for name, (prompt, chosen) in jobs.items():
        submit(loop, name, prompt, **chosen)
        absorb(loop.step(), results)
    drain(loop, results)
    for name, result in alone.items():
        assert results[name].error is None
        assert (results[name].ids, results[name].stats.canvas_tokens) == (result.ids, result.stats.canvas_tokens)


def test_it_saves_rows(loop):
    settings = {"max_tokens": 128, "block_length": 128, "rule": "low_confidence", "ignore_eos": True}
    rows = {cache: generate(loop, PROMPT, cache=cache, **settings).stats.canvas_tokens for cache in ("none", "delayed")}
    assert rows["none"] == 128 * (len(PROMPT) + 128)
    assert rows["delayed"] < 0.6 * rows["none"]


@pytest.mark.parametrize(
    ("kind", "params", "hint"),
    [
        ("full", {"refresh_interval": 4}, "delayed"),
        ("full", {"refresh_interval": 4, "cache": "dual"}, "delayed"),
        ("full", {"refresh_interval": 0, "cache": "delayed"}, ""),
        ("block_causal", {"refresh_interval": 4}, "Leave it out."),
    ],
)
def test_an_interval_that_means_nothing_is_refused(kind, params, hint):
    with pytest.raises(InvalidValueError) as caught:
        resolve(GenerationParams(**params), model_info(kind), 1)
    assert caught.value.param == "refresh_interval"
    assert hint in caught.value.hint


def test_the_interval_is_told_where_it_is_read():
    applied = [resolve(GenerationParams(cache=cache), model_info("full"), 1).applied() for cache in ("delayed", "dual")]
    assert [params.get("refresh_interval") for params in applied] == [8, None]

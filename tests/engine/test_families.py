"""Every family in one engine's step loop, as any request meets it: batched or alone, again and again, cancelled."""

from __future__ import annotations

import pytest

from tests.engines import absorb, drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from unmask.engine import wire

FAMILIES = {
    "llada": "llada/ckpt",
    "llada_gqa": "llada/ckpt_gqa",
    "llada_moe": "llada_moe/ckpt",
    "llada_moe_shared": "llada_moe/ckpt_bias_shared_gqa",
    "llada2": "llada2/ckpt",
    "dream": "dream/ckpt",
    "sdar": "sdar/ckpt",
    "fast_dllm_v2": "fast_dllm_v2/ckpt",
    "diffusion_gemma": "diffusion_gemma/ckpt",
}


# Their step loop is that of llada; tests of their logits always run.
VARIANTS = ("llada_gqa", "llada_moe", "llada_moe_shared")
PARAMS = [pytest.param(name, marks=() if name not in VARIANTS else pytest.mark.slow) for name in FAMILIES]


@pytest.fixture(scope="module", params=PARAMS)
def loop(request, golden, tmp_path_factory):
    path = served_copy(golden / FAMILIES[request.param], tmp_path_factory.mktemp("family"))
    return make_loop(path, max_running=16, max_context=256)


def _prompts():
    return [[(7 * n + 11 * i) % 240 + 2 for i in range(n)] for n in (1, 3, 8, 9, 16, 17, 30, 41)]


def _settings(model):
    """Every rule, every cache, sampling, end tokens, lengths at block borders: different for each request."""
    settings = [{"rule": rule} for rule in model.rules] + [{"cache": cache} for cache in model.caches]
    settings += [
        {"temperature": 0.8, "seed": 7, "top_p": 0.9},
        {"temperature": 1.0, "seed": 8, "top_k": 5},
        {"end_tokens": "never"},
        {"min_tokens": 5} | ({} if model.denoiser == "renoise" else {"early_exit": True}),
        {"max_tokens": 1},
        {"block_length": 5, "max_tokens": 13},
    ]
    if "entropy" in model.rules:
        settings += [{"rule": "entropy", "top_p": 0.7, "steps": 3}, {"rule": "topk_margin", "alg_temp": 0.5, "seed": 3}]
    if model.mask_id is not None:
        settings.append({"cfg_scale": 0.7})
    if "joint_threshold" in model.rules:
        settings.append({"rule": "joint_threshold", "edit_threshold": 0.2, "threshold": 0.4})
    return [{"max_tokens": 24, "temperature": 0.0, "block_length": 8} | chosen for chosen in settings]


def test_mixed_requests_equal_their_solo_runs(loop):
    """All at once, arriving while others run, some cancelled: each request gets what it gets alone."""
    prompts = _prompts()
    jobs = {str(n): (prompts[n % len(prompts)], s) for n, s in enumerate(_settings(loop.model))}
    alone = {name: generate(loop, prompt, **settings) for name, (prompt, settings) in jobs.items()}
    assert not any(result.error for result in alone.values())
    results = {}
    for name, (prompt, settings) in jobs.items():
        submit(loop, name, prompt, **settings)
        submit(loop, f"{name} cancelled", prompt, **settings)
        absorb(loop.step(), results)
        loop.send(wire.Cancel(f"{name} cancelled"))
        absorb(loop.step(), results)
    drain(loop, results)
    for name, result in alone.items():
        assert results[name].ids == result.ids, jobs[name]
        assert results[name].finish == result.finish
        assert results[name].stats.forwards == result.stats.forwards


def _short(model):
    """Few forwards, for tests of which the number of forwards is no part."""
    return {"temperature": 0.0, "block_length": 8} | ({"steps": 6} if model.denoiser == "renoise" else {})


def test_twenty_identical_requests_give_identical_answers(loop):
    prompt, request = _prompts()[4], _short(loop.model) | {"max_tokens": 12}
    answers = [generate(loop, prompt, **request).ids for _ in range(20)]
    assert answers.count(answers[0]) == 20
    for number in range(4):
        submit(loop, str(number), prompt, **request)
    together = drain(loop)
    assert all(result.ids == answers[0] for result in together.values())


def test_a_prompt_of_any_length_fits_any_grid(loop):
    """Around block borders, up to the context's end: as many tokens as asked for, none of them the mask."""
    room = loop.model.context_length
    for length in (1, 2, 7, 8, 9, 16, 17, room - 9, room - 1):
        for max_tokens in (1, 8, 9):
            if length + max_tokens > room:
                continue
            result = generate(loop, [5] * length, max_tokens=max_tokens, ignore_eos=True, **_short(loop.model))
            assert result.error is None
            assert len(result.ids) == max_tokens
            assert result.finish == "length"
            assert loop.model.mask_id not in result.ids


def test_the_cache_changes_nothing_where_it_is_exact(loop):
    """Block-causal models compute finished blocks once; recomputing everything in every forward gives the same."""
    if {"exact", "none"} - {*loop.model.caches}:
        pytest.skip("this family's caches are approximate, or it has one way only")
    for prompt in _prompts():
        exact, none = (
            generate(loop, prompt, cache=cache, max_tokens=24, block_length=8) for cache in ("exact", "none")
        )
        assert exact.ids == none.ids
        assert exact.stats.canvas_tokens < none.stats.canvas_tokens or exact.stats.blocks == 1

"""Too few pages, or too few rows: requests give way and go on later, and say what they would have said anyway."""

from __future__ import annotations

import pytest

from tests.engines import drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy

GROWING = {
    "llada2": "llada2/ckpt",
    "sdar": "sdar/ckpt",
    "fast_dllm_v2": "fast_dllm_v2/ckpt",
    "diffusion_gemma": "diffusion_gemma/ckpt",
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=() if name != "sdar" else pytest.mark.slow) for name in GROWING],  # as llada2
)
def path(request, golden, tmp_path_factory):
    return served_copy(golden / GROWING[request.param], tmp_path_factory.mktemp("growing"))


def _jobs(model):
    settings = [{"rule": rule} for rule in model.rules[:3]] + [{"cache": cache} for cache in model.caches]
    settings += [{"temperature": 0.8, "seed": 7}, {"cfg_scale": 0.7} if model.mask_id is not None else {}]
    if "joint_threshold" in model.rules:
        settings.append({"rule": "joint_threshold", "edit_threshold": 0.2, "threshold": 0.4})
    base = {"temperature": 0.0, "max_tokens": 56, "block_length": 8, "ignore_eos": True}
    base |= {"steps": 4} if model.denoiser == "renoise" else {}
    prompts = [[(7 * n + 11 * i) % 240 + 2 for i in range(20 + 11 * n)] for n in range(len(settings))]
    return {str(n): (prompts[n], base | chosen) for n, chosen in enumerate(settings)}


@pytest.fixture(scope="module")
def alone(path):
    """The jobs, and what comes of each with all the room there is."""
    loop = make_loop(path, max_context=192, prefix_cache=False)
    return {name: (job, generate(loop, job[0], **job[1])) for name, job in _jobs(loop.model).items()}


@pytest.mark.parametrize("prefix_cache", [False, True])
def test_evicted_requests_end_as_if_alone(path, alone, prefix_cache):
    """Many requests on the pages of two."""
    loop = make_loop(path, max_context=192, kv_tokens=384, prefix_cache=prefix_cache)
    for name, ((prompt, settings), _) in alone.items():
        submit(loop, name, prompt, **settings)
    results = drain(loop)
    assert loop.stats.evictions > 0
    for name, (job, expected) in alone.items():
        assert results[name].ids == expected.ids, job
        assert results[name].finish == expected.finish
        assert expected.stats.evictions == 0
    assert sum(result.stats.evictions for result in results.values()) == loop.stats.evictions


def test_d2f_requests_are_evicted_and_go_on(golden):
    """A pipeline of live blocks, behind a prompt that is one block, under guidance too."""
    roomy = make_loop(golden / "dream" / "ckpt", attention="block_causal", max_context=256)
    narrow = make_loop(golden / "dream" / "ckpt", attention="block_causal", max_context=256, kv_tokens=512)
    base = {"rule": "d2f", "max_tokens": 120, "block_length": 8, "ignore_eos": True, "threshold": 0.3}
    jobs = {str(n): ([(n * 5 + i) % 90 + 2 for i in range(15 + n)], base) for n in range(6)}
    jobs["guided"] = (jobs["0"][0], base | {"cfg_scale": 0.5})
    jobs["drawn"] = (jobs["1"][0], base | {"temperature": 1.0, "seed": 5})
    for name, (prompt, settings) in jobs.items():
        submit(narrow, name, prompt, **settings)
    results = drain(narrow)
    assert narrow.stats.evictions > 0
    for name, (prompt, settings) in jobs.items():
        alone = generate(roomy, prompt, **settings)
        assert results[name].ids == alone.ids
        assert results[name].stats.forwards == alone.stats.forwards, "a resumed prefill shares the next forward"


def test_long_prompts_are_computed_in_pieces(path):
    """A row budget far below the prompts: they take several forwards before the first block, and say the same."""
    roomy, narrow = make_loop(path, prefix_cache=False), make_loop(path, max_rows=40, prefix_cache=False)
    base = {"temperature": 0.0, "max_tokens": 16, "block_length": 8}
    base |= {"steps": 4} if roomy.model.denoiser == "renoise" else {}
    jobs = {str(n): [(n * 5 + i) % 240 + 2 for i in range(200 + n)] for n in range(4)}
    jobs["short"] = [5, 6, 7]
    for name, prompt in jobs.items():
        submit(narrow, name, prompt, **base)
    submit(narrow, "drawn", jobs["1"], **base | {"temperature": 0.8, "seed": 3})
    widest, execute = 0, narrow._runner.execute

    def watching(spans):
        nonlocal widest
        widest = max(widest, sum(span.rows for span in spans))
        return execute(spans)

    narrow._runner.execute = watching
    results = drain(narrow)
    assert widest <= 40 + 16, "the budget, and what was carried over for a request that waited"
    for name, prompt in jobs.items():
        alone = generate(roomy, prompt, **base)
        assert results[name].ids == alone.ids
        assert results[name].stats.forwards > alone.stats.forwards or name == "short"
    assert results["drawn"].ids == generate(roomy, jobs["1"], **base | {"temperature": 0.8, "seed": 3}).ids

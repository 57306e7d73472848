"""The exact cache under block-causal attention: what it holds never changes, and doing without changes nothing."""

from __future__ import annotations

import pytest
import torch

from tests.engine.test_independence import mixed_requests
from tests.engines import drain, generate, submit

PROMPT = [1, *range(30, 75), 3]


def test_recomputing_everything_gives_the_same_tokens(loop):
    for prompt, params in mixed_requests(3, count=10).values():
        exact = generate(loop, prompt, cache="exact", **params)
        none = generate(loop, prompt, cache="none", **params)
        assert exact.ids == none.ids
        assert exact.stats.forwards == none.stats.forwards


@pytest.mark.parametrize("rule", [{"rule": "threshold"}, {"rule": "d2f", "threshold": 0.5, "add_threshold": 0.1}])
def test_cached_keys_and_values_never_change(loop, rule):
    submit(loop, "watched", PROMPT, max_tokens=96, block_length=8, ignore_eos=True, **rule)
    for number in range(3):
        submit(loop, f"neighbour-{number}", PROMPT[: 10 + number], max_tokens=64, ignore_eos=True)
    loop.step()
    seen = 0
    layers = loop._runner.cache.layers
    kept = [layer[:0] for layer in layers]
    while (sequence := loop._scheduler.running.get("watched")) is not None:
        cached = sequence.denoiser.cached
        assert cached >= seen
        slots = torch.from_numpy(sequence.held.slots(False)[:cached].copy())
        for index, layer in enumerate(layers):
            now = layer[slots]
            assert torch.equal(now[:seen], kept[index])
            kept[index] = now
        seen = cached
        loop.step()
    assert seen >= len(PROMPT) + 80
    while not loop.idle:
        loop.step()


def test_guidance_runs_beside_unguided_requests(loop):
    """Each guided request has a second stream; neighbours without one are not touched."""
    params = {"max_tokens": 40, "ignore_eos": True}
    alone = {scale: generate(loop, PROMPT, cfg_scale=scale, **params).ids for scale in (0.0, 0.7, 1.5)}
    assert len({tuple(ids) for ids in alone.values()}) == 3
    for scale in alone:
        submit(loop, str(scale), PROMPT, cfg_scale=scale, **params)
    results = drain(loop)
    assert {scale: results[str(scale)].ids for scale in alone} == alone

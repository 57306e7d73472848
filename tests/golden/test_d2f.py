"""The D2F pipeline against the reference evaluation code, over LLaDA and (with shifted logits) over Dream."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.engines import generate, make_loop
from tests.golden.forward import logits_of
from tests.golden.trajectories import recordings
from unmask.decoding.block_causal import BlockState
from unmask.models.load import load_model

FIXTURE, CASES = recordings("d2f")


@pytest.fixture(scope="module", params=["llada", "dream"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def loops(golden):
    return {
        base: make_loop(golden / base / "ckpt", adapter=str(golden / "d2f" / f"{base}_adapter"), prefix_cache=False)
        for base in ("llada", "dream")
    }


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("attention", ["blockcausal", "full"])
def test_logits(golden, family, index, attention):
    tensors = load_file(golden / "d2f" / "logits.safetensors")
    adapter = str(golden / "d2f" / f"{family}_adapter")
    model = load_model(str(golden / family / "ckpt"), adapter=adapter, device="cpu")
    ids = tensors[f"{family}_ids_{index}"].tolist()
    prompt, block = (6, 11)[index], 8
    visible = [len(ids)] * len(ids)
    if attention == "blockcausal":
        ends = [prompt if i < prompt else prompt + ((i - prompt) // block + 1) * block for i in range(len(ids))]
        visible = [min(end, len(ids)) for end in ends]
    logits = logits_of(model, ids, visible=visible)
    torch.testing.assert_close(logits, tensors[f"{family}_logits_{attention}_{index}"], atol=1e-4, rtol=1e-4)


def _request(params):
    assert params["temperature"] == 0.0
    return {
        "rule": "d2f",
        "block_length": params["block_size"],
        "max_tokens": params["max_new_tokens"],
        "threshold": params["skip_threshold"],
        "add_threshold": params["block_add_threshold"],
        "activate_threshold": params["decoded_token_threshold"],
        "max_live_blocks": 1024,
    }


def _blocks(denoiser):
    """Blocks that are not in the cache, as the fixture lists them, without their number."""
    return [
        [block.start, block.end, block.masked, block.state.name.lower(), block.activated]
        for block in denoiser.blocks
        if block.state is not BlockState.IN_CACHE
    ]


@pytest.mark.parametrize("cache", ["exact", "none"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "steps" in case])
def test_trajectory(loops, name, cache):
    """Rows, cache length, canvas, commits and block states of every forward; recomputing everything changes nothing."""
    case = CASES[name]
    loop = loops[case["base"]]
    prompt = FIXTURE["prompts"][int(name[-1])]
    execute, step = loop._runner.execute, iter(case["steps"])

    def checked(spans):
        (span,) = spans
        expected, denoiser = next(step), span.sequence.denoiser
        assert _blocks(denoiser) == [block[1:] for block in expected["blocks"] if block[4] != "in_cache"]
        assert span.sequence.canvas.tokens[: expected["end"]].tolist() == expected["canvas"]
        assert denoiser.cached == expected["cache_len"]
        if cache == "exact":
            assert [span.window.start, span.window.end] == [expected["start"], expected["end"]]
            assert denoiser._next_cached() - denoiser.cached == expected["kv_to_commit"]
        (commit,) = execute(spans)
        assert sorted(commit.decision.positions) == expected["committed"]
        return [commit]

    loop._runner.execute = checked
    try:
        result = generate(loop, prompt, cache=cache, ignore_eos=True, **_request(case["params"]))
    finally:
        loop._runner.execute = execute
    assert result.error is None
    assert prompt + result.ids == case["final"]
    assert result.stats.forwards == case["forwards"]


def test_end_token_over_dream(golden, tmp_path):
    """The reference goes on to finish the blocks right of the end token; we stop, with the same text."""
    case = CASES["d2f_dream_eos_p0"]
    end = case["params"]["eos_token_id"]
    prompt = FIXTURE["prompts"][0]
    shutil.copytree(golden / "dream" / "ckpt", tmp_path / "ckpt")
    config = json.loads((tmp_path / "ckpt" / "config.json").read_text())
    (tmp_path / "ckpt" / "config.json").write_text(json.dumps(config | {"eos_token_id": end}))
    loop = make_loop(tmp_path / "ckpt", adapter=str(golden / "d2f" / "dream_adapter"))
    result = generate(loop, prompt, **_request(case["params"]))
    text = case["final"][len(prompt) :]
    assert result.ids == text[: text.index(end)]
    assert result.finish == "stop"
    assert result.stats.forwards <= case["forwards"]


@pytest.mark.parametrize(
    "blocks",
    [pytest.param(count, marks=() if count in (1, 2, 3, 5, 8, 12) else pytest.mark.slow) for count in range(1, 17)],
)
def test_forward_count_with_skip_threshold_one(loops, blocks):
    """29 n + 3 forwards for n blocks of 32 (arXiv 2608.23807's step levels): output length and nothing else."""
    params = {"rule": "d2f", "block_length": 32, "threshold": 1.0, "add_threshold": 0.5, "activate_threshold": 0.9}
    loop = loops["dream"]
    result = generate(loop, [5, 6, 7], max_tokens=32 * blocks, ignore_eos=True, **params)
    assert result.stats.forwards == 29 * blocks + 3

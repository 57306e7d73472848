"""Dream's own samplers and Fast-dLLM's for Dream, step by step."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from tests.engines import make_loop, trace
from tests.golden.trajectories import recordings
from unmask.engine import parts

FIXTURE, CASES = recordings("dream")


@pytest.fixture(scope="module")
def loop(golden):
    return make_loop(golden / "dream" / "ckpt")


@pytest.fixture(scope="module")
def recorded(golden):
    return load_file(golden / "dream" / "trajectories.safetensors")


def _request(params):
    """A reference sampler's arguments in our words."""
    blocked = "block_length" in params
    block = params.get("block_length", params["max_new_tokens"])
    ours = {
        "max_tokens": params["max_new_tokens"],
        "block_length": block,
        "ignore_eos": True,
        "rule": params["alg"],
        "temperature": params["temperature"],
    }
    if params["alg"] == "confidence_threshold":
        ours |= {"rule": "threshold" if blocked else "paced_threshold", "threshold": params["threshold"]}
    if ours["rule"] != "threshold":
        ours["steps"] = params["steps"] * block // params["max_new_tokens"]
    if blocked:
        ours["cache"] = "dual" if params["dual_cache"] else "prefix"
    return ours | {key: params[key] for key in ("top_p", "top_k") if key in params}


@pytest.mark.parametrize("name", [name for name in CASES if "batch" not in name])
def test_trajectory(loop, recorded, name, monkeypatch):
    case = CASES[name]
    prompt = FIXTURE["prompts"][int(name[-1]) if name.endswith(("p0", "p1")) else 0]
    if case["params"]["alg"] == "origin":
        _replay(monkeypatch, recorded, name)
    forwards = trace(loop, prompt, **_request(case["params"]))
    canvases = recorded[f"{name}.canvas"][:, 0].tolist()
    # Chance may decide everything before the last step; the reference goes on to find nothing left to do.
    assert len(forwards) == case["nfe"] - sum(not committed[0] for committed in case["committed"][len(forwards) :])
    for step, forward in enumerate(forwards):
        assert forward.canvas == canvases[step]
        assert forward.committed == case["committed"][step][0]
        if "forward_slices" in case:
            assert [forward.start, forward.end] == case["forward_slices"][step]


def _replay(monkeypatch, recorded, name):
    """Draw the recorded uniform numbers instead of our own."""
    draws = iter(recorded[key] for key in sorted(recorded) if key.startswith(f"{name}.rand_"))
    ours = parts.uniform

    def uniform(seed, position, step, stream):
        return next(draws).double() if stream == parts.CHANCE else ours(seed, position, step, stream)

    monkeypatch.setattr(parts, "uniform", uniform)


def test_trajectory_of_a_left_padded_batch(loop, recorded):
    """The reference pads on the left and runs its batch in lockstep; each of our requests runs as if alone."""
    name = "dream_batch_leftpad_entropy_g24_s8"
    case = CASES[name]
    canvases = recorded[f"{name}.canvas"]
    for row, mask in enumerate(case["params"]["attention_mask"]):
        pads = mask.count(0)
        prompt = canvases[0, row, pads : len(mask)].tolist()
        for step, forward in enumerate(trace(loop, prompt, **_request(case["params"]))):
            assert forward.canvas == canvases[step, row, pads:].tolist()
            assert [position + pads for position in forward.committed] == case["committed"][step][row]


def test_recorded_uniforms_are_what_the_case_hinges_on(loop):
    """Without a replay, the draws are our own: other seeds commit in another order, the same seed in the same."""
    prompt, params = FIXTURE["prompts"][0], {"rule": "origin", "max_tokens": 24, "block_length": 24, "steps": 8}
    first, again, other = (trace(loop, prompt, ignore_eos=True, seed=seed, **params) for seed in (1, 1, 2))
    assert [forward.committed for forward in first] == [forward.committed for forward in again]
    assert [forward.committed for forward in first] != [forward.committed for forward in other]
    assert torch.equal(torch.tensor(first[-1].canvas), torch.tensor(again[-1].canvas))

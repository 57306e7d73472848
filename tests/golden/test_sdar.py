"""SDAR's own sampler, step by step. Ours fuses its prefill and commit forwards with the denoising ones."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file

from tests.engines import generate, make_loop, trace
from tests.golden.trajectories import recordings

FIXTURE, CASES = recordings("sdar")
# In the others the reference overwrites decided tokens, which its own fixture says is no behaviour to match.
CASES = {name: case for name, case in CASES.items() if not case["reference_overwrites_unmasked"]}


@pytest.fixture(scope="module")
def loop(golden):
    return make_loop(golden / "sdar" / "ckpt")


@pytest.fixture(scope="module")
def recorded(golden):
    return load_file(golden / "sdar" / "trajectories.safetensors")


RULES = {
    "low_confidence_dynamic": "dynamic",
    "low_confidence_static": "low_confidence",
    "sequential": "sequential",
}


def _request(case):
    """The reference decides whole blocks."""
    params = case["params"]
    ours = {
        "max_tokens": len(case["final"]) - case["prompt_len"],
        "block_length": params["block_length"],
        "steps": params["denoising_steps"],
        "rule": RULES[params["remasking_strategy"]],
    }
    return ours | ({"threshold": params["confidence_threshold"]} if ours["rule"] == "dynamic" else {})


@pytest.mark.parametrize("cache", ["exact", "none"])
@pytest.mark.parametrize("name", [name for name in CASES if "stop" not in name])
def test_trajectory(loop, recorded, name, cache):
    case = CASES[name]
    prompt = FIXTURE["prompts"][int(name[-1])]
    canvases = recorded[f"{name}.canvas"].tolist()
    denoising = [n for n, step in enumerate(case["steps"]) if step["kind"] == "denoise"]
    forwards = trace(loop, prompt, cache=cache, ignore_eos=True, **_request(case))
    assert len(forwards) == len(denoising)
    for forward, step in zip(forwards, denoising, strict=True):
        assert forward.canvas == canvases[step]
        assert forward.committed == case["steps"][step]["committed"]
        assert forward.end == case["steps"][step]["end"]
    result = generate(loop, prompt, cache=cache, ignore_eos=True, **_request(case))
    assert prompt + result.ids == case["final"]


def test_stop_id(golden, tmp_path):
    case = CASES["sdar_stop_p1"]
    (stop,) = case["params"]["stopping_criteria_idx"]
    shutil.copytree(golden / "sdar" / "ckpt", tmp_path / "ckpt")
    (tmp_path / "ckpt" / "generation_config.json").write_text(json.dumps({"eos_token_id": stop}))
    prompt = FIXTURE["prompts"][1]
    result = generate(make_loop(tmp_path / "ckpt"), prompt, **_request(case))
    text = case["final"][len(prompt) :]
    assert result.ids == text[: text.index(stop)]
    assert result.finish == "stop"
    assert result.stats.forwards == sum(step["kind"] == "denoise" for step in case["steps"])

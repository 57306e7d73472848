"""LLaDA against its references: logits of the model, trajectories of ML-GSAI's and Fast-dLLM's samplers."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from tests.engines import make_loop, trace
from tests.golden.forward import logits_of
from tests.golden.trajectories import recordings
from unmask.models.load import load_model

FIXTURE, CASES = recordings("llada")


@pytest.fixture(scope="module")
def loop(golden):
    return make_loop(golden / "llada" / "ckpt")


@pytest.fixture(scope="module")
def two_ends(golden, tmp_path_factory):
    """The same model with both of LLaDA's end tokens: one more file beside the checkpoint says so."""
    path = tmp_path_factory.mktemp("llada") / "ckpt"
    shutil.copytree(golden / "llada" / "ckpt", path)
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [FIXTURE["eos_id"], FIXTURE["eot_id"]]}))
    return make_loop(path)


@pytest.fixture(scope="module")
def recorded(golden):
    return load_file(golden / "llada" / "trajectories.safetensors")


@pytest.mark.parametrize(
    ("checkpoint", "prefix", "count"), [("ckpt", "logits", 3), ("ckpt_gqa", "gqa_logits", 2)], ids=["mha", "gqa"]
)
def test_logits(golden, checkpoint, prefix, count):
    tensors = load_file(golden / "llada" / "logits.safetensors")
    model = load_model(str(golden / "llada" / checkpoint), device="cpu")
    for i in range(count):
        logits = logits_of(model, tensors[f"ids_{i}"].tolist())
        torch.testing.assert_close(logits, tensors[f"{prefix}_{i}"], atol=1e-4, rtol=1e-4)


def test_logits_of_a_padded_batch(golden):
    """The reference pads its batch; ours has no pads, and the same logits."""
    tensors = load_file(golden / "llada" / "logits.safetensors")
    model = load_model(str(golden / "llada" / "ckpt"), device="cpu")
    real = [row[mask.bool()].tolist() for row, mask in zip(tensors["pad_ids"], tensors["pad_mask"], strict=True)]
    batched = logits_of(model, *real)
    expected = torch.cat(
        [rows[mask.bool()] for rows, mask in zip(tensors["pad_logits"], tensors["pad_mask"], strict=True)]
    )
    torch.testing.assert_close(batched, expected, atol=1e-4, rtol=1e-4)


def _request(params):
    """A reference sampler's arguments in our words."""
    blocks = params["gen_length"] // params["block_length"]
    ours = {"max_tokens": params["gen_length"], "block_length": params["block_length"], "ignore_eos": True}
    if params.get("threshold") is not None:
        return ours | {"rule": "threshold", "threshold": params["threshold"]}
    if params.get("factor") is not None:
        return ours | {"rule": "factor", "factor": params["factor"]}
    ours |= {"rule": "low_confidence", "steps": params["steps"] // blocks}
    if params.get("cfg_scale"):
        ours["cfg_scale"] = params["cfg_scale"]
    if params.get("logits_eos_inf"):
        ours["end_tokens"] = "never"
    if params.get("confidence_eos_eot_inf"):
        ours["end_tokens"] = "last"
    return ours


CACHES = {"generate_with_prefix_cache": "prefix", "generate_with_dual_cache": "dual"}


@pytest.mark.parametrize("name", [name for name in CASES if "leftpad" not in name])
def test_trajectory(loop, two_ends, recorded, name):
    case = CASES[name]
    prompt = FIXTURE["prompts"][int(name[-1])]
    cache = CACHES.get(case.get("fn"), "none")
    forwards = trace(two_ends if "confeosinf" in name else loop, prompt, cache=cache, **_request(case["params"]))
    canvases = recorded[f"{name}.canvas"][:, 0].tolist()
    assert len(forwards) == case["nfe"]
    for step, forward in enumerate(forwards):
        assert forward.canvas == canvases[step]
        assert forward.committed == case["committed"][step][0]
        if "forward_slices" in case:
            assert [forward.start, forward.end] == case["forward_slices"][step]


def test_trajectory_of_a_left_padded_batch(loop, recorded):
    """The reference pads on the left and runs its batch in lockstep; each of our requests runs as if alone."""
    name = "gsai_batch_leftpad_g32_b8_s16"
    case = CASES[name]
    canvases = recorded[f"{name}.canvas"]
    for row, mask in enumerate(case["params"]["attention_mask"]):
        pads = mask.count(0)
        prompt = canvases[0, row, pads : len(mask)].tolist()
        for step, forward in enumerate(trace(loop, prompt, **_request(case["params"]))):
            assert forward.canvas == canvases[step, row, pads:].tolist()
            assert [position + pads for position in forward.committed] == case["committed"][step][row]

"""LLaDA-MoE under LLaDA's official sampler, step by step."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

from tests.engines import make_loop, trace
from tests.golden.checkpoints import served_copy
from tests.golden.trajectories import recordings

FIXTURE, CASES = recordings("llada_moe")


@pytest.fixture(scope="module")
def loop(golden, tmp_path_factory):
    return make_loop(served_copy(golden / "llada_moe" / "ckpt", tmp_path_factory.mktemp("ckpt")))


@pytest.mark.parametrize("name", CASES)
def test_trajectory(golden, loop, name):
    case = CASES[name]
    params = case["params"]
    steps = params["steps"] * params["block_length"] // params["gen_length"]
    ours = {"max_tokens": params["gen_length"], "block_length": params["block_length"], "steps": steps}
    prompt = FIXTURE["prompts"][int(name[-1])]
    forwards = trace(loop, prompt, rule="low_confidence", ignore_eos=True, **ours)
    canvases = load_file(golden / "llada_moe" / "trajectories.safetensors")[f"{name}.canvas"][:, 0].tolist()
    assert len(forwards) == case["nfe"]
    for step, forward in enumerate(forwards):
        assert forward.canvas == canvases[step]
        assert forward.committed == case["committed"][step][0]

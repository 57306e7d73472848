"""Fast-dLLM v2's own sampler, step by step, without and with its cache of sub-blocks."""

from __future__ import annotations

import pytest

from tests.engines import generate, make_loop, trace
from tests.golden.checkpoints import served_copy
from tests.golden.trajectories import recordings

FIXTURE, CASES = recordings("fast_dllm_v2")


@pytest.fixture(scope="module")
def loops(golden, tmp_path_factory):
    """One for each end token that a case uses."""
    ends = {case["params"]["stop_token"] for case in CASES.values()}
    paths = {
        end: served_copy(golden / "fast_dllm_v2" / "ckpt", tmp_path_factory.mktemp("ckpt"), end_id=end) for end in ends
    }
    return {end: make_loop(path) for end, path in paths.items()}


def _request(case, prompt):
    """The reference ends with a block, and one token more that it has looked ahead to."""
    params = case["params"]
    stopped = case["final"][-1] == params["stop_token"]
    return {
        "max_tokens": params["max_new_tokens"] if stopped else len(case["final"]) - len(prompt),
        "block_length": params["block_size"],
        "sub_block_length": params["small_block_size"],
        "threshold": params["threshold"],
        "cache": "dual" if params["use_block_cache"] else "exact",
    }


@pytest.mark.parametrize("name", CASES)
def test_trajectory(loops, name):
    """Each denoising forward's rows, canvas and commits. Ours fuses the prefill with the first of them, and like the
    reference commits a block's first token in the forward that computes the keys of what is left of it.
    """
    case = CASES[name]
    prompt = FIXTURE["prompts"][int(name[-1])]
    loop = loops[case["params"]["stop_token"]]
    forwards = trace(loop, prompt, **_request(case, prompt))
    prefilled = case["steps"][0]["end"] if case["steps"][0]["kind"] == "prefill" else 0
    whole = len(prompt) % case["params"]["block_size"] == 0
    steps = case["steps"][bool(prefilled) and not whole :]
    assert len(forwards) == len(steps)
    for number, (forward, step) in enumerate(zip(forwards, steps, strict=True)):
        assert forward.canvas[: len(step["canvas"])] == step["canvas"]
        start = 0 if number == 0 else step["start"]
        assert [forward.start, forward.end] == [start, step["end"]]
        if number + 1 < len(steps):
            after = steps[number + 1]["canvas"]
            changed = [at for at in range(len(after)) if after[at] != (step["canvas"] + [255] * 99)[at]]
            assert forward.committed == changed
    result = generate(loop, prompt, **_request(case, prompt))
    answer = [token for token in case["final"][len(prompt) :] if token != case["params"]["stop_token"]]
    assert result.ids == answer

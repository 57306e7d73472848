"""Fast-dLLM v2's own sampler, step by step, without and with its cache of sub-blocks."""

from __future__ import annotations

import pytest

from tests.engines import drain, generate, make_loop, submit, trace
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


# With the sub-block cache, the reference's lockstep lets a row's neighbours decide when its block is computed anew: at
# this threshold two rows come out otherwise than alone, which is no behaviour to match.
BATCHES = [case for case in FIXTURE.get("batch_cases", []) if case["name"] != "fdv2_batch_thr0.5_bc1"]


@pytest.mark.parametrize("case", BATCHES, ids=[case["name"] for case in BATCHES])
def test_batch(loops, case):
    """The reference pads its batch and runs it in lockstep; ours gives each row what it gets alone, the same tokens."""
    params = case["params"]
    loop = loops[params["stop_token"]]
    for row, final in case["final"].items():
        prompt = FIXTURE["prompts"][int(row)]
        submit(loop, row, prompt, **_request({"params": params, "final": final}, prompt))
    results = drain(loop)
    for row, final in case["final"].items():
        text = final[len(FIXTURE["prompts"][int(row)]) :]
        stop = text.index(params["stop_token"]) if params["stop_token"] in text else len(text)
        assert results[row].ids == text[:stop]

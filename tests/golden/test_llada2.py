"""LLaDA2.0's and LLaDA2.1's own samplers, step by step."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file

from tests.engines import generate, make_loop, trace
from tests.golden.checkpoints import served_copy
from tests.golden.trajectories import recordings

FIXTURE, CASES = recordings("llada2")


@pytest.fixture(scope="module")
def loops(golden, tmp_path_factory):
    """One for each end token that a case uses."""
    ends = {case["params"]["eos_id"] for case in CASES.values()}
    paths = {end: served_copy(golden / "llada2" / "ckpt", tmp_path_factory.mktemp("ckpt"), end_id=end) for end in ends}
    return {end: make_loop(path) for end, path in paths.items()}


@pytest.fixture(scope="module")
def recorded(golden):
    return load_file(golden / "llada2" / "trajectories.safetensors")


def _request(case):
    """The reference decides whole blocks, and cuts its answer at ``gen_length`` afterwards."""
    params = case["params"]
    ours = {"max_tokens": len(case["final"]) - case["prompt_len"], "block_length": params["block_length"]}
    ours["threshold"] = params["threshold"]
    ours["early_exit"] = params.get("eos_early_stop", False)
    if "editing_threshold" not in params:
        return ours | {"rule": "dynamic", "steps": params["steps"]}
    return ours | {
        "rule": "joint_threshold",
        "edit_threshold": params["editing_threshold"],
        "max_edit_steps": params["max_post_steps"],
        "min_commits": params.get("num_to_transfer", 1),
    }


@pytest.mark.parametrize("cache", ["exact", "none"])
@pytest.mark.parametrize("name", CASES)
def test_trajectory(loops, recorded, name, cache):
    """Every canvas and every commit, edits included; without a cache too, since finished blocks' keys are exact.

    We stop after the end token's block, the reference sometimes goes on: there ours is the beginning of its.
    """
    case = CASES[name]
    prompt = FIXTURE["prompts"][int(name[-1])]
    loop = loops[case["params"]["eos_id"]]
    forwards = trace(loop, prompt, cache=cache, **_request(case))
    canvases = recorded[f"{name}.canvas"].tolist()
    if "eos_early" not in name:
        assert len(forwards) == case["nfe"]
    for step, forward in enumerate(forwards):
        assert forward.canvas == canvases[step]
        assert forward.committed == case["committed"][step]
        assert forward.end == case["window_ends"][step]
    result = generate(loop, prompt, cache=cache, **_request(case))
    answer = [token for token in case["answer"] if token != case["params"]["eos_id"]]
    assert result.ids[: case["params"]["gen_length"]] == answer
    assert result.finish == ("stop" if case["params"]["eos_id"] in case["answer"] else "length")


def test_edits_stop_at_their_cap(loops):
    """An edit threshold of 0 replaces whatever the model would rather have; it ends after ``max_edit_steps``."""
    params = {"rule": "joint_threshold", "threshold": 0.5, "edit_threshold": 0.0, "max_edit_steps": 3}
    result = generate(loops[250], FIXTURE["prompts"][0], max_tokens=24, block_length=8, ignore_eos=True, **params)
    assert result.error is None
    assert len(result.ids) == 24
    assert result.stats.forwards <= 24 + 4 * 3


def test_text_is_told_only_once_it_can_no_longer_be_edited(loops):
    """Tokens of a block that may be edited are not reported before the block is done."""
    name = "llada21_thr0.7_ed0.5_p0"
    case = CASES[name]
    assert any(case["edited"]), "the case must edit something for this test to mean anything"
    prompt = FIXTURE["prompts"][0]
    loop = loops[250]
    told = []
    step = loop.step

    def recording():
        report = step()
        told.extend(token for event in report.events for token in event.token_ids)
        assert told == case["final"][len(prompt) :][: len(told)]
        assert (len(prompt) + len(told)) % 8 == 0 or not told
        return report

    loop.step = recording
    try:
        generate(loop, prompt, **_request(case))
    finally:
        loop.step = step
    assert told == case["final"][len(prompt) :]

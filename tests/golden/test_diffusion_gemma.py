"""DiffusionGemma's own sampler, step by step, with the randomness that the reference recorded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.engines import generate, make_loop
from tests.golden.checkpoints import served_copy
from tests.golden.trajectories import recordings
from unmask.decoding.renoise import RenoiseDenoiser
from unmask.engine import runner

FIXTURE, CASES = recordings("diffusion_gemma")


@pytest.fixture(scope="module")
def loops(golden, tmp_path_factory):
    """One for each end token that a case uses; None where a case has none."""
    ends = {_end(case) for case in CASES.values()}
    return {
        end: make_loop(served_copy(golden / "diffusion_gemma" / "ckpt", tmp_path_factory.mktemp("ckpt"), end_id=end))
        for end in ends
    }


def _end(case):
    (end,) = case["params"]["eos_token_id"] or [None]
    return end


@pytest.fixture(scope="module")
def recorded(golden):
    return load_file(golden / "diffusion_gemma" / "trajectories.safetensors")


def _request(params):
    return {
        "max_tokens": params["max_new_tokens"],
        "temperature": 0.0 if params["greedy_denoiser"] else 1.0,
        "steps": params["max_denoising_steps"],
        "ignore_eos": params["eos_token_id"] is None,
        **{key: params[key] for key in ("entropy_bound", "t_min", "t_max", "stability_threshold")},
        "confidence_threshold": params["confidence_threshold"],
    }


@pytest.mark.parametrize("name", CASES)
def test_trajectory(loops, recorded, name, monkeypatch):
    """Canvas, likeliest and accepted tokens, entropies and forward count, and the text in the end."""
    case = CASES[name]
    prompt = FIXTURE["prompts"][int(name[-1])]
    of_case = {key.removeprefix(f"{name}."): value for key, value in recorded.items() if key.startswith(f"{name}.")}
    replay = _Replay(case, of_case)
    monkeypatch.setattr(RenoiseDenoiser, "_noise", lambda denoiser: replay.noise(denoiser))
    monkeypatch.setattr(runner, "propose", replay.propose)
    loop = loops[_end(case)]
    execute = loop._runner.execute
    steps = 0

    def checked(spans):
        nonlocal steps
        (span,) = spans
        start = span.window.canvas_start
        assert span.sequence.canvas.tokens[start : span.window.end].tolist() == of_case["canvas_in"][steps].tolist()
        (commit,) = execute(spans)
        accepted = np.flatnonzero(of_case["accepted"][steps].numpy()) + start
        assert commit.decision.positions.tolist() == accepted.tolist()
        outlook = commit.decision.outlook
        assert outlook.likeliest.tolist() == of_case["argmax"][steps].tolist()
        np.testing.assert_allclose(-outlook.score, of_case["entropy"][steps].numpy(), atol=1e-4, rtol=1e-4)
        steps += 1
        return [commit]

    monkeypatch.setattr(loop._runner, "execute", checked)
    result = generate(loop, prompt, **_request(case["params"]))
    assert result.error is None
    assert result.stats.forwards == case["steps"] == steps
    text = case["final"][len(prompt) :]
    assert result.ids == (text[: text.index(_end(case))] if _end(case) in text else text)
    assert result.finish == ("stop" if _end(case) in text else "length")


class _Replay:
    """Hands out the recorded noise and drawn tokens instead of our own."""

    def __init__(self, case, of_case):
        self._of_case = of_case
        self._propose = runner.propose
        self._step = 0
        firsts = [n for n, index in enumerate(case["canvas_index"]) if n == 0 or index != case["canvas_index"][n - 1]]
        self._fresh = iter(of_case["canvas_in"][n].numpy().astype(np.int64) for n in firsts)

    def noise(self, denoiser):
        if denoiser.step == 0:
            return next(self._fresh)
        return self._of_case["random"][self._step - 1].numpy().astype(np.int64)

    def propose(self, *arguments):
        proposals = self._propose(*arguments)
        drawn = self._of_case["denoiser"][self._step].to(torch.int64)
        if arguments[4] is None:  # greedy rows: what is drawn is the likeliest
            assert torch.equal(proposals.token, drawn)
        proposals.token = drawn
        self._step += 1
        return proposals


def test_conditioning_is_exactly_zero_in_the_first_step(loops):
    """What an earlier request left in the same slots must not show in a new canvas's first forward."""
    loop, prompt = loops[None], FIXTURE["prompts"][1]
    request = {"max_tokens": 16, "temperature": 0.0, "steps": 4, "ignore_eos": True}
    first = generate(loop, prompt, **request)
    again = generate(loop, prompt, **request)
    assert first.ids == again.ids


def test_noise_depends_on_seed_position_and_step_alone(loops):
    loop, prompt = loops[None], FIXTURE["prompts"][0]
    request = {"max_tokens": 32, "steps": 6, "ignore_eos": True}
    assert generate(loop, prompt, seed=3, **request).ids == generate(loop, prompt, seed=3, **request).ids
    assert generate(loop, prompt, seed=3, **request).ids != generate(loop, prompt, seed=4, **request).ids
    greedy = request | {"temperature": 0.0}
    assert generate(loop, prompt, **greedy).ids == generate(loop, prompt, **greedy).ids

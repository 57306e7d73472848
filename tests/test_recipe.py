"""The embedded model's recipe: sound tasks, a reference decoder that agrees with the engine, training that resumes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.engines import drain, make_loop, submit
from unmask.checkpoints.directory import EMBEDDED_MODEL, open_checkpoint

ROOT = Path(__file__).parents[1]

tasks = pytest.importorskip("recipes.tiny.tasks")


@pytest.mark.parametrize("kind", list(tasks.TASKS))
def test_tasks_are_seeded_and_split_by_their_prompt(kind):
    samples = [tasks.draw(Random(seed), kind, 1.0) for seed in range(40)]
    assert samples == [tasks.draw(Random(seed), kind, 1.0) for seed in range(40)]
    assert not any(sample.held_out() for sample in samples)
    held_out = [tasks.draw(Random(seed), kind, 1.0, "held_out") for seed in range(5)]
    assert all(sample.held_out() and sample.correct(sample.answer) for sample in held_out)


def test_the_heldout_file_was_never_trained_on():
    entries = [json.loads(line) for line in (ROOT / "recipes" / "tiny" / "heldout.jsonl").read_text().splitlines()]
    assert len({entry["kind"] for entry in entries}) >= 12
    for entry in entries:
        *earlier, question = entry["messages"]
        history = tuple(
            (asked["content"], answered["content"]) for asked, answered in zip(earlier[::2], earlier[1::2], strict=True)
        )
        assert tasks.Sample(entry["kind"], question["content"], entry["answer"], history).held_out()


@pytest.mark.parametrize(
    ("threshold", "params"),
    [
        pytest.param(2.0, {"rule": "low_confidence"}, marks=pytest.mark.slow),
        (0.9, {"rule": "threshold", "threshold": 0.9}),
    ],
)
def test_the_reference_decoder_agrees_with_the_engine(threshold, params):
    """Two independent implementations, the same weights: the same tokens, and under a threshold the same forwards.

    (One token a step commits the tail of a block in the order of confidences that all round to 1, which is nobody's.)
    """
    from recipes.tiny.decode import decode
    from recipes.tiny.evaluate import load

    model, tokenizer = load(open_checkpoint(EMBEDDED_MODEL).path)
    samples = [tasks.draw(Random(n), kind, 1.0, "held_out") for n in range(2) for kind in tasks.TASKS]
    prompts = [tokenizer.encode(sample.prompt()).ids for sample in samples]
    loop = make_loop(EMBEDDED_MODEL, max_running=64)
    for number, prompt in enumerate(prompts):
        submit(loop, str(number), prompt, max_tokens=128, early_exit=True, **params)
    results = drain(loop)
    for number, prompt in enumerate(prompts):
        (answer,) = decode(model, [prompt], threshold=threshold)
        assert results[str(number)].ids == answer.tokens[:128]
        assert results[str(number)].stats.forwards == answer.forwards or params["rule"] == "low_confidence"


@pytest.mark.slow
def test_training_runs_and_resumes(tmp_path):
    def train(minutes):
        command = [sys.executable, "-m", "recipes.tiny.train", "--out", str(tmp_path), "--minutes", str(minutes)]
        subprocess.run([*command, "--workers", "1", "--tokens", "400"], check=True, cwd=ROOT, capture_output=True)
        return [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]

    (tmp_path / "tokenizer.json").write_bytes((open_checkpoint(EMBEDDED_MODEL).path / "tokenizer.json").read_bytes())
    first = train(0.1)
    assert first[-1]["loss"] < 7
    again = train(0.2)
    assert again[: len(first)] == first
    assert again[-1]["step"] > first[-1]["step"]
    assert (tmp_path / "state.pt").is_file()

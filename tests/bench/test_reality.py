"""The simulator against reality: one trace on a live server, real process and sockets, and under the virtual clock.

Costs are calibrated on the same machine before and after the replay, with the same one thread.
"""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from tests.bench.replay import ask_one_by_one, replay
from tests.cli.test_run import unmask
from tests.serving.processes import serve
from unmask.bench.arrivals import poisson

REQUESTS = 240
LOAD = 0.6  # of what the engine could do one request at a time
QUESTIONS = [
    "What is 7 + 8?",
    "Count from 1 to 15.",
    "Sort in ascending order: 31 4 17 8",
    "Start with 9, add 12, subtract 5. What is the result?",
    "Gina has 12 marbles. Bob has 4 more marbles than Gina. How many marbles do they have together?",
    "Write a Python function add(x) that returns x plus 7.",
    "Who are you?",
    "Which day comes after Wednesday?",
    "Spell: ocean",
    "Count from 1 to 40.",
]


def simulated(tmp_path, trace: list[dict], *arguments: str) -> dict:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in trace))
    done = unmask("simulate", "--trace", str(path), "--policy", "step", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    return result


def calibrated(path, trace: str) -> str:
    done = unmask("simulate", "--calibrate", str(path), "--like", trace, "--threads", "1", "--seconds", "20")
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return str(path)


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_a_replayed_trace_takes_as_long_as_simulated(tmp_path):
    random = np.random.default_rng(7)
    chosen = random.integers(0, len(QUESTIONS), REQUESTS).tolist()
    with serve() as server:
        await ask_one_by_one(server.url, QUESTIONS)
        alone = await ask_one_by_one(server.url, QUESTIONS)
        rate = LOAD / float(np.mean([alone[question].total for question in chosen]))
        times = poisson(rate, REQUESTS, random).tolist()
        rows = [
            {
                "time": time,
                "prompt_tokens": alone[question].prompt_tokens,
                "output_tokens": alone[question].output_tokens,
                "max_tokens": 512,
                "forwards": alone[question].forwards,
            }
            for time, question in zip(times, chosen, strict=True)
        ]
        trace = tmp_path / "trace.jsonl"
        trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
        before = calibrated(tmp_path / "before.json", str(trace))
        answers = await replay(server.url, [QUESTIONS[question] for question in chosen], times)
        after = calibrated(tmp_path / "after.json", str(trace))
    print(rate, [asdict(a) for a in alone])
    print(
        np.percentile([a.total for a in answers], [50, 95, 99]),
        np.percentile([a.first_block for a in answers], [50, 95, 99]),
    )
    for costs in (before, after):
        print(simulated(tmp_path, rows, "--costs", costs))

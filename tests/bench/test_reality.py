"""The simulator against reality: one trace on a live server, real process and sockets, and under the virtual clock.

Costs are measured on the same machine, with the same one thread, before and after the trace is replayed. Where the two
tell different things, the machine had other work meanwhile and nothing can be concluded.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.bench.replay import Answer, ask_one_by_one, replay
from tests.cli.test_run import UNMASK
from tests.serving.processes import environment, serve
from unmask.bench.arrivals import poisson

REQUESTS = 240
LOAD = 0.9  # of what the engine could do one request at a time
RULE = "low_confidence"  # one token per forward: requests of 5 to 130 forwards
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


def run(*arguments: str) -> dict:
    """What `unmask simulate` prints; it may take long."""
    command = [UNMASK, "simulate", "--json", "--rule", RULE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write_trace(path: Path, times: list[float], answers: list[Answer]) -> None:
    rows = (
        {
            "time": time,
            "prompt_tokens": answer.prompt_tokens,
            "output_tokens": answer.output_tokens,
            "max_tokens": 512,
            "forwards": answer.forwards,
        }
        for time, answer in zip(times, answers, strict=True)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def simulated(costs: str, trace: Path) -> dict:
    run("--calibrate", costs, "--like", str(trace), "--threads", "1", "--device", "cpu", "--seconds", "30")
    (result,) = run("--costs", costs, "--trace", str(trace), "--policy", "step")["results"]
    return result


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_a_replayed_trace_takes_as_long_as_simulated(tmp_path):
    random = np.random.default_rng(7)
    chosen = random.integers(0, len(QUESTIONS), REQUESTS).tolist()
    trace = tmp_path / "trace.jsonl"
    with serve("--no-prefix-cache") as server:  # as simulated: the same ten questions come again and again
        await ask_one_by_one(server.url, QUESTIONS, rule=RULE)
        alone = await ask_one_by_one(server.url, QUESTIONS, rule=RULE)
        rate = LOAD / float(np.mean([alone[question].total for question in chosen]))
        times = poisson(rate, REQUESTS, random).tolist()
        write_trace(trace, times, [alone[question] for question in chosen])
        before = simulated(str(tmp_path / "before.json"), trace)
        answers = await replay(server.url, [QUESTIONS[question] for question in chosen], times, rule=RULE)
        after = simulated(str(tmp_path / "after.json"), trace)
    assert [answer.forwards for answer in answers] == [alone[question].forwards for question in chosen]
    lines, changed = [], False
    for what in ("total", "first_block"):
        seconds = [getattr(answer, what) for answer in answers]
        for percentile, tolerance in ((50, 0.15), (95, 0.25)):
            real = float(np.percentile(seconds, percentile))
            told = [result[what][f"p{percentile}"] for result in (before, after)]
            changed |= max(told) > 1.1 * min(told)
            lines.append((what, percentile, real, told, abs(np.mean(told) / real - 1) <= tolerance))
    print(*lines, sep="\n")
    if changed:
        pytest.skip(f"this machine had other work: {lines}")
    assert all(close for *_, close in lines), lines

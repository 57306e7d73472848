"""The simulator against reality: a trace on a live server, real process and sockets, and under the virtual clock.

Machines are shared, and their speed changes by the minute. So requests that measure and requests that are compared
take turns, in slices of some seconds; they have nothing in common but the server. Costs are fitted to its own log of
the steps in the former alone, and tell how long the latter took. A slice to compare counts if before and after it the
machine was as fast as usual, by what the slices that measure tell, whatever came of it.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.bench.replay import ask_one_by_one
from tests.bench.slices import Slice, cut_log, replay_slice, speeds, steady, write_trace
from tests.cli.test_run import UNMASK
from tests.serving.processes import environment, serve
from unmask.checkpoints.directory import EMBEDDED_MODEL

REQUESTS = 20  # in a slice
USUAL = 1.25  # the machine is as fast as usual if its steps take so many times as long, or as short, at most
WANTED, ENOUGH = 20, 15  # slices to compare; if there are fewer than enough, the test tells nothing
LONGEST = 600  # seconds until it makes do with what it has
RULE = "low_confidence"  # one token per forward: requests of 16 to 64 forwards
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


def simulate(*arguments: str) -> dict:
    """What `unmask simulate` prints; it may take long."""
    command = [UNMASK, "simulate", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def take(url: str, log: Path, rate: float, seed: list[int]) -> Slice:
    return await replay_slice(url, log, QUESTIONS, rate, REQUESTS, seed, rule=RULE)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("load", [0.9, 1.3])  # of what the server does one request at a time
async def test_a_replayed_trace_takes_as_long_as_simulated(tmp_path, load):
    log, costs, trace = tmp_path / "steps.jsonl", str(tmp_path / "costs.json"), tmp_path / "trace.jsonl"
    # No prefix cache, as simulated: the same ten questions come again and again.
    with serve("--no-prefix-cache", "--step-log", str(log)) as server:
        await ask_one_by_one(server.url, QUESTIONS, rule=RULE)
        alone = await ask_one_by_one(server.url, QUESTIONS, rule=RULE)
        rate = load / float(np.mean([answer.total for answer in alone]))
        measuring, compared = [await take(server.url, log, rate, [0, 0])], []
        until = time.monotonic() + LONGEST
        while len(steady(speeds(log, measuring), USUAL)) < WANTED and time.monotonic() < until:
            compared.append(await take(server.url, log, rate, [1, len(compared)]))
            measuring.append(await take(server.url, log, rate, [0, len(measuring)]))
    assert [answer.forwards for part in compared for answer in part.answers] == [
        alone[question].forwards for part in compared for question in part.chosen
    ]
    ratios = speeds(log, measuring)
    chosen = steady(ratios, USUAL)
    print("load", load, "speeds", np.round(ratios, 2), "compared", len(chosen))
    if len(chosen) < ENOUGH:
        pytest.skip(f"this machine had other work: its steps took {np.round(ratios, 2)} times as long as on average")
    compared = [compared[number] for number in chosen]
    cut_log(log, [measuring[number] for number in sorted({*chosen, *(n + 1 for n in chosen)})], tmp_path / "cut.jsonl")
    write_trace(trace, compared, alone)
    known = ("--from-steps", str(tmp_path / "cut.jsonl"), EMBEDDED_MODEL, "--threads", "1", "--device", "cpu")
    simulate("--calibrate", costs, *known)
    (result,) = simulate("--costs", costs, "--trace", str(trace), "--policy", "step", "--rule", RULE)["results"]
    assert result["mean_batch"] > 1.3, "requests share steps"
    lines = []
    for what in ("total", "first_block"):
        seconds = [getattr(answer, what) for part in compared for answer in part.answers]
        for percentile, tolerance in ((50, 0.15), (95, 0.25)):
            real, told = float(np.percentile(seconds, percentile)), result[what][f"p{percentile}"]
            lines.append((what, percentile, round(real, 4), round(told, 4), round(told / real - 1, 3), tolerance))
    print(*lines, f"mean batch {result['mean_batch']:.2f}", sep="\n")
    assert all(abs(off) <= tolerance for *_, off, tolerance in lines), lines

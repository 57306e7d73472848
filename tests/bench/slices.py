"""Calibration and evaluation in turns on one live server, so that both meet the same machine."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.bench.replay import Answer, replay
from unmask.bench.arrivals import poisson
from unmask.bench.costs import fit_costs
from unmask.bench.distributions import Floats
from unmask.bench.logged_steps import read_steps

APART = 3600.0  # seconds in a trace between slices, each of which began on an idle server


@dataclass
class Slice:
    """Requests, by the numbers of their questions, with their times from its beginning, and what came of them.

    It lasted from ``began`` to ``ended`` by the monotonic clock, which is that of the step log too.
    """

    chosen: list[int]
    times: list[float]
    answers: list[Answer]
    began: float
    ended: float


async def replay_slice(url: str, questions: list[str], rate: float, count: int, seed: list[int], **unmask) -> Slice:
    """So many random questions, until the last is answered."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(questions), count).tolist()
    times = poisson(rate, count, random).tolist()
    began = time.monotonic()
    answers = await replay(url, [questions[number] for number in chosen], times, **unmask)
    return Slice(chosen, times, answers, began, time.monotonic())


def write_trace(path: Path, slices: list[Slice], alone: list[Answer]) -> None:
    """The requests of ``slices``, with the sizes that their questions had ``alone``."""
    rows = (
        {
            "time": number * APART + time,
            "prompt_tokens": alone[question].prompt_tokens,
            "output_tokens": alone[question].output_tokens,
            "max_tokens": 512,
            "forwards": alone[question].forwards,
        }
        for number, part in enumerate(slices)
        for question, time in zip(part.chosen, part.times, strict=True)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def cut_log(log: Path, slices: list[Slice], path: Path) -> None:
    """Write to ``path`` the steps of ``log`` that began in one of ``slices``."""
    origin, *steps = log.read_bytes().splitlines(keepends=True)
    times = [json.loads(step)["time"] for step in steps]
    chosen = [
        step for step, at in zip(steps, times, strict=True) if any(part.began <= at < part.ended for part in slices)
    ]
    path.write_bytes(origin + b"".join(chosen))


def speeds(log: Path, slices: list[Slice], folder: Path) -> Floats:
    """How long the steps of each of ``slices`` took, all together, over what costs fitted to all of them tell."""
    cut_log(log, slices, folder / "all.jsonl")
    _, features, seconds = read_steps(str(folder / "all.jsonl"))
    costs, _ = fit_costs(features, seconds)
    ratios = []
    for part in slices:
        cut_log(log, [part], folder / "one.jsonl")
        _, features, seconds = read_steps(str(folder / "one.jsonl"))
        ratios.append(seconds.sum() / (costs.step + costs.of(features)).sum())
    return np.array(ratios)


def steady(ratios: Floats, most: float) -> list[int]:
    """The numbers of the gaps between two slices in a row whose ``speeds`` both differ from what is usual by a factor
    of ``most`` at most.
    """
    usual = float(np.median(ratios))
    return [n for n, pair in enumerate(pairwise(ratios)) if usual / most <= min(pair) and max(pair) <= most * usual]

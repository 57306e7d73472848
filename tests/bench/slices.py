"""Calibration and evaluation in turns on one live server, so that both meet the same machine."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from tests.bench.replay import Answer, replay
from unmask.bench.arrivals import poisson
from unmask.bench.costs import fit_costs
from unmask.bench.distributions import Floats
from unmask.engine.step_records import StepRecord

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

    def steps(self, log: list[StepRecord]) -> list[StepRecord]:
        """Those that began in it."""
        return [step for step in log if self.began <= step.time < self.ended]


async def replay_slice(
    url: str, log: Path, questions: list[str], rate: float, count: int, seed: list[int], **unmask
) -> Slice:
    """So many random questions, until the last is answered and all their steps are in the server's log."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(questions), count).tolist()
    times = poisson(rate, count, random).tolist()
    began = time.monotonic()
    answers = await replay(url, [questions[number] for number in chosen], times, **unmask)
    part = Slice(chosen, times, answers, began, time.monotonic())
    forwards = sum(answer.forwards for answer in answers)
    async with asyncio.timeout(30):  # the engine writes when it has told us already
        while sum(step.spans for step in part.steps(read_log(log))) < forwards:
            await asyncio.sleep(0.01)
    assert sum(step.spans for step in part.steps(read_log(log))) == forwards
    return part


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


def read_log(log: Path) -> list[StepRecord]:
    """All steps of a log."""
    return [msgspec.json.decode(line, type=StepRecord) for line in log.read_bytes().splitlines()[1:]]


def cut_log(log: Path, slices: list[Slice], path: Path) -> None:
    """Write to ``path`` the steps of ``log`` that began in one of ``slices``."""
    origin, steps = log.read_bytes().partition(b"\n")[0], read_log(log)
    chosen = [step for part in slices for step in part.steps(steps)]
    path.write_bytes(b"".join(line + b"\n" for line in (origin, *map(msgspec.json.encode, chosen))))


def speeds(log: Path, slices: list[Slice]) -> Floats:
    """How long the steps of each of ``slices`` took, all together, over what costs fitted to all of them tell."""
    logged = read_log(log)
    each = [part.steps(logged) for part in slices]
    features = [np.array([step.features for step in steps]) for steps in each]
    seconds = [np.array([step.seconds for step in steps]) for steps in each]
    costs, _ = fit_costs(np.concatenate(features), np.concatenate(seconds))
    told = [np.sum(costs.step + costs.of(held)) for held in features]
    return np.array([np.sum(took) for took in seconds]) / told


def steady(ratios: Floats, most: float) -> list[int]:
    """The numbers of the gaps between two slices in a row whose ``speeds`` both differ from what is usual by a factor
    of ``most`` at most.
    """
    usual = float(np.median(ratios))
    return [n for n, pair in enumerate(pairwise(ratios)) if usual / most <= min(pair) and max(pair) <= most * usual]

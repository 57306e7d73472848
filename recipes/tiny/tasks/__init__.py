"""Synthetic tasks with programmatically known answers, and the mixture they are drawn in."""

from dataclasses import replace
from random import Random
from typing import Literal

from .base import Generator, Sample
from .chat import SYSTEMS, follow_up, small_talk
from .code import code
from .knowledge import knowledge
from .numbers import arithmetic, chain, compare, count, minmax, sort, table
from .stories import facts, word_problem
from .words import copy, edit, length, letters, reverse

__all__ = ["MIXTURE", "TASKS", "Sample", "decorate", "draw", "mixture"]

Split = Literal["train", "held_out"]

TASKS: dict[str, Generator] = {
    "arithmetic": arithmetic, "chain": chain, "word_problem": word_problem, "sort": sort,
    "reverse": reverse, "copy": copy, "edit": edit, "letters": letters, "length": length,
    "minmax": minmax, "compare": compare, "facts": facts, "count": count, "table": table,
    "code": code, "knowledge": knowledge, "small_talk": small_talk, "follow_up": follow_up,
}  # fmt: skip

MIXTURE: dict[str, float] = {
    "arithmetic": 13, "chain": 10, "word_problem": 13, "sort": 10,
    "reverse": 4, "copy": 4, "edit": 8, "letters": 6, "length": 1.5,
    "minmax": 2, "compare": 4, "facts": 4, "count": 14, "table": 4,
    "code": 4, "knowledge": 5, "small_talk": 2, "follow_up": 2.5,
}  # fmt: skip
"""Relative frequencies in training: number facts are the bottleneck and get the most."""

COPYING = {"copy", "reverse", "edit", "follow_up", "length"}


def mixture(progress: float) -> dict[str, float]:
    """The mixture at a point of training: copying from the prompt is learned first."""
    boost = 2.5 if progress < 0.08 else 1.0
    return {kind: w * (boost if kind in COPYING else 1.0) for kind, w in MIXTURE.items()}


def draw(rng: Random, kind: str, difficulty: float = 1.0, split: Split = "train") -> Sample:
    """Draw a sample of one task from one side of the held-out split."""
    while True:
        sample = TASKS[kind](rng, difficulty)
        if sample.held_out() == (split == "held_out"):
            return sample


def decorate(rng: Random, sample: Sample) -> Sample:
    """Sometimes put a system prompt or an unrelated earlier turn before a training sample."""
    if rng.random() < 0.05:
        sample = replace(sample, system=rng.choice(SYSTEMS))
    if not sample.history and rng.random() < 0.05:
        kind = rng.choice(("arithmetic", "knowledge", "small_talk", "compare"))
        earlier = draw(rng, kind)
        sample = replace(sample, history=((earlier.question, earlier.answer),))
    return sample

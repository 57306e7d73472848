"""Commit rules: which masked positions of a block become final in this step.

Each rule is one function on small tensors, for all blocks that use it at once, and one row of ``RULES``.
Shape letters: S segments (one block of one request each), B block positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.params import RULE_OPTIONS


@dataclass(slots=True)
class RuleParams:
    """Per-segment parameters, each [S]: ``quota`` int64; ``threshold``, ``factor`` float64; ``activated`` bool."""

    quota: Tensor
    threshold: Tensor
    factor: Tensor
    activated: Tensor


@dataclass(frozen=True, slots=True)
class Rule:
    """``commit(score [S, B], params) -> [S, B] bool``; scores of positions that are not masked are -inf.

    ``score_dtype``: the precision in which the reference computes confidence. ``tempered``: see ``Sampling``.
    """

    commit: Callable[[Tensor, RuleParams], Tensor]
    score_dtype: torch.dtype
    tempered: bool


def low_confidence(score: Tensor, params: RuleParams) -> Tensor:
    """The ``quota`` most confident positions (LLaDA's static low-confidence remasking)."""
    return (_rank(score) < params.quota[:, None]) & score.isfinite()


def threshold(score: Tensor, params: RuleParams) -> Tensor:
    """Every position with score >= threshold, and always the best one (Fast-dLLM, arXiv 2505.22618)."""
    return (score >= params.threshold[:, None]) | _best(score)


def factor(score: Tensor, params: RuleParams) -> Tensor:
    """The k best, for the largest k whose k-th score is at least 1 - factor / (k + 1) (Fast-dLLM).

    As its code does it: the first position always passes; if the first failure, counted from 0, is the last
    position, that one is committed too.
    """
    masked = score.isfinite().sum(dim=-1)
    ordered = torch.sort(score, dim=-1, descending=True, stable=True).values
    count = torch.arange(1, score.shape[-1] + 1, device=score.device)
    bound = 1 - params.factor[:, None] / (count + 1)
    failed = (ordered < bound) & (count > 1)
    first = torch.where(failed.any(dim=-1), failed.long().argmax(dim=-1), masked - 1)
    first = torch.minimum(first, masked - 1)
    commits = first + (first == masked - 1)
    return (_rank(score) < commits[:, None]) & score.isfinite()


def d2f(score: Tensor, params: RuleParams) -> Tensor:
    """Every position with score > threshold; in an activated block at least the best one (arXiv 2508.09192)."""
    above = score > params.threshold[:, None]
    forced = params.activated & ~above.any(dim=-1)
    return above | (_best(score) & forced[:, None])


RULES: dict[str, Rule] = {
    "low_confidence": Rule(low_confidence, torch.float32, tempered=False),
    "threshold": Rule(threshold, torch.float64, tempered=False),
    "factor": Rule(factor, torch.float64, tempered=False),
    "d2f": Rule(d2f, torch.float32, tempered=True),
}
assert set(RULES) == set(RULE_OPTIONS), "every rule has a row here and its options in params.py"


def _rank(score: Tensor) -> Tensor:
    """Each position's place from the most confident (0) on; the leftmost of equals comes first."""
    order = torch.argsort(score, dim=-1, descending=True, stable=True)
    places = torch.arange(score.shape[-1], device=score.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places)


def _best(score: Tensor) -> Tensor:
    """True at the most confident position of each segment that has a masked one."""
    best = score.max(dim=-1, keepdim=True)
    positions = torch.arange(score.shape[-1], device=score.device)
    return (positions == best.indices) & best.values.isfinite()

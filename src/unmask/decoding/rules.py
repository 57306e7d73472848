"""Commit rules: which masked positions of a block become final in this step.

Each rule is one function on small tensors, for all blocks that use it at once, and one row of ``RULES``.
Shape letters: S segments (one block of one request each), B block positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unmask.decoding.propose import Score, Scoring
from unmask.params import RULE_TRAITS

_PLAIN = Scoring()


@dataclass(slots=True)
class RuleParams:
    """Per-segment parameters, each [S] float64; ``activated`` is 1 or 0.

    Thresholds are rounded to the precision of the scores they are compared with, as the references' are.
    """

    quota: Tensor
    share: Tensor
    threshold: Tensor
    factor: Tensor
    entropy_bound: Tensor
    activated: Tensor


@dataclass(frozen=True, slots=True)
class Rule:
    """``commit(score [S, B], params) -> [S, B] bool``; scores of positions that are not masked are -inf."""

    commit: Callable[[Tensor, RuleParams], Tensor]
    scoring: Scoring = _PLAIN


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
    forced = params.activated.bool() & ~above.any(dim=-1)
    return above | (_best(score) & forced[:, None])


def dynamic(score: Tensor, params: RuleParams) -> Tensor:
    """Every position with score > threshold if there are ``quota`` of them, else the ``quota`` best (LLaDA2, SDAR)."""
    above = score > params.threshold[:, None]
    enough = above.sum(dim=-1) >= params.quota
    return torch.where(enough[:, None], above, low_confidence(score, params))


def sequential(score: Tensor, params: RuleParams) -> Tensor:
    """The ``quota`` leftmost masked positions (SDAR)."""
    masked = score.isfinite()
    return masked & (masked.cumsum(dim=-1) <= params.quota[:, None])


def paced_threshold(score: Tensor, params: RuleParams) -> Tensor:
    """The ``quota`` best, less those with score < threshold, but always the best one (Fast-dLLM's Dream)."""
    return low_confidence(score, params) & threshold(score, params)


def origin(score: Tensor, params: RuleParams) -> Tensor:
    """Each masked position with a chance of ``share``; its score is a draw, negated (Dream)."""
    return (-score < params.share[:, None]) & score.isfinite()


def entropy_bound(score: Tensor, params: RuleParams) -> Tensor:
    """The surest positions, as many as keep the entropies before them within the bound (DiffusionGemma).

    The score is the negative entropy.
    """
    ordered, order = torch.sort(-score, dim=-1, stable=True)
    accepted = (ordered.cumsum(dim=-1) - ordered <= params.entropy_bound[:, None]) & ordered.isfinite()
    return torch.zeros_like(accepted).scatter_(1, order, accepted)


RULES: dict[str, Rule] = {
    "low_confidence": Rule(low_confidence),
    "threshold": Rule(threshold, Scoring(dtype=torch.float64)),
    "factor": Rule(factor, Scoring(dtype=torch.float64)),
    "dynamic": Rule(dynamic),
    "sequential": Rule(sequential),
    "paced_threshold": Rule(paced_threshold),
    "maskgit_plus": Rule(low_confidence, Scoring(tempered=True)),
    "topk_margin": Rule(low_confidence, Scoring(Score.MARGIN, tempered=True)),
    "entropy": Rule(low_confidence, Scoring(Score.NEGATIVE_ENTROPY, tempered=True)),
    "origin": Rule(origin, Scoring(Score.CHANCE)),
    "d2f": Rule(d2f, Scoring(tempered=True)),
    "joint_threshold": Rule(dynamic),
    "entropy_bound": Rule(entropy_bound, Scoring(Score.NEGATIVE_ENTROPY, tempered=True)),
}
assert set(RULES) == set(RULE_TRAITS), "every rule has a row here and its traits in params.py"


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

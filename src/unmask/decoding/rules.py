"""Commit rules: which masked positions of a block become final in this step.

Each rule is one function on small tensors, for all blocks that use it at once, and one row of ``RULES``.
Shape letters: S segments (one block of one request each), B block positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from unmask.decoding.propose import Score, Scoring
from unmask.params import RULE_TRAITS, SCORES, DecodingParams

_PLAIN = Scoring()
_KINDS = dict(zip(SCORES, (Score.PROBABILITY, Score.MARGIN, Score.NEGATIVE_ENTROPY), strict=True))
_CALM_FORWARDS = 2
_WINO_SHARE, _WINO_MOST = 0.7, (5, 20)


@dataclass(slots=True)
class RuleParams:
    """Per-segment parameters, each [S] float64; ``activated`` is 1 or 0.

    Thresholds are rounded to the precision of the scores they are compared with, as the references' are. ``inner``:
    how many of the segment's positions commit at the segment's pace; those beyond commit only all at once, when the
    gaps exceed ``gap``.
    """

    quota: Tensor
    share: Tensor
    threshold: Tensor
    factor: Tensor
    entropy_bound: Tensor
    activated: Tensor
    anchor_threshold: Tensor
    radius: Tensor
    low_threshold: Tensor
    verify_threshold: Tensor
    gap: Tensor
    inner: Tensor


@dataclass(frozen=True, slots=True)
class Rule:
    """``commit(score [S, B], params) -> [S, B] bool``; scores of positions that are not masked are -inf.

    A rule that goes ``by_two`` numbers of each position takes the second, which its scoring or what it keeps names, as
    a third argument [S, B]; it is NaN where nothing was looked at. ``remask(commits [S, B] bool, standing [S, B],
    params) -> [S, B] bool``, likewise: which tokens that were committed before become masks again. ``standing`` is how
    sure the model is of them now, -inf where none is. They are fewer than the commits: so a block takes no more
    forwards than it has positions.
    """

    commit: Callable[..., Tensor]
    scoring: Scoring = _PLAIN
    remask: Callable[..., Tensor] | None = None
    by_two: bool = False


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


def d2f(score: Tensor, params: RuleParams, probability: Tensor) -> Tensor:
    """Every position with probability > threshold; in an activated block at least the best one (arXiv 2508.09192)."""
    above = (probability > params.threshold[:, None]) & score.isfinite()
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


def eb(score: Tensor, params: RuleParams, negative_entropy: Tensor) -> Tensor:
    """The k best, for the largest k whose entropies, less the largest of them, sum to no more than the bound.

    EB-Sampler (arXiv 2505.24857): tokens drawn independently of each other differ from ones drawn jointly by no more.
    """
    order = torch.argsort(score, dim=-1, descending=True, stable=True)
    entropy = torch.where(score.isfinite(), -negative_entropy, torch.inf).gather(1, order)
    spread = entropy.cumsum(dim=-1) - entropy.cummax(dim=-1).values
    accepted = (spread <= params.entropy_bound[:, None]) & entropy.isfinite()
    return torch.zeros_like(accepted).scatter_(1, order, accepted)


def local_leap(score: Tensor, params: RuleParams) -> Tensor:
    """Anchors, with score >= anchor_threshold, and near them what has >= threshold; always the best (arXiv 2510.07081).

    Near is within ``radius`` positions.
    """
    anchors = score >= params.anchor_threshold[:, None]
    up_to = pad(anchors.long().cumsum(dim=-1), (1, 0))  # anchors left of each position
    places = torch.arange(score.shape[-1], device=score.device)
    radius = params.radius.long()[:, None]
    first, last = (places - radius).clamp(min=0), (places + radius + 1).clamp(max=score.shape[-1])
    near = up_to.gather(1, last) > up_to.gather(1, first)
    return anchors | (near & (score >= params.threshold[:, None])) | _best(score)


def hierarchy(score: Tensor, params: RuleParams) -> Tensor:
    """The best of every run of masks if its score > low_threshold, all above threshold; always the best (dInfer)."""
    masked = score.isfinite()
    run = (masked & ~pad(masked[:, :-1], (1, 0))).long().cumsum(dim=-1)  # numbers from 1 on
    rank = _rank(score)  # masked positions come first, so no other can be the best of a run
    firsts = torch.full_like(pad(rank, (0, 1)), score.shape[-1]).scatter_reduce(1, run, rank, "amin")
    best_of_run = masked & (rank == firsts.gather(1, run))
    halved = best_of_run & (score > params.low_threshold[:, None])
    return halved | (score > params.threshold[:, None]) | _best(score)


def klass(score: Tensor, params: RuleParams, calm: Tensor) -> Tensor:
    """What is sure and has been stable for two forwards; if nothing is, the ``quota`` best (arXiv 2511.05664).

    ``calm`` counts the forwards in which a position's distribution stayed the same.
    """
    ready = (score > params.threshold[:, None]) & (calm >= _CALM_FORWARDS)
    return torch.where(ready.any(dim=-1, keepdim=True), ready, low_confidence(score, params))


def prophet(score: Tensor, params: RuleParams, gap: Tensor) -> Tensor:
    """All masks at once if the mean gap between their two best logits is large enough, else the ``quota`` best of the
    block (arXiv 2508.19982).
    """
    masked = score.isfinite()
    mean = torch.where(masked, gap, 0.0).sum(dim=-1) / masked.sum(dim=-1)
    inner = torch.arange(score.shape[-1], device=score.device) < params.inner[:, None]
    at_pace = low_confidence(torch.where(inner, score, -torch.inf), params)
    return torch.where((mean > params.gap)[:, None], masked, at_pace)


def saber(score: Tensor, params: RuleParams, confidence: Tensor) -> Tensor:
    """All above the mean ``confidence`` at which the block's tokens were committed, at least ``quota`` (2510.18165)."""
    committed = ~score.isfinite() & ~confidence.isnan()
    bar = torch.where(committed, confidence, 0.0).sum(dim=-1) / committed.sum(dim=-1).clamp(min=1)
    bar = torch.where(committed.any(dim=-1), bar, 1.0)
    return (score > bar[:, None]) | low_confidence(score, params)


def fallen(commits: Tensor, standing: Tensor, params: RuleParams, confidence: Tensor) -> Tensor:
    """Saber's backtracking: the tokens whose confidence fell most, half a ``quota`` or an eighth of the commits."""
    count = torch.maximum(params.quota // 2, (commits.sum(dim=-1) / 8).ceil())
    drop = torch.where(standing.isfinite(), confidence - standing, -torch.inf)
    return _least(-drop, drop > 0, commits, count)


def wino(score: Tensor, params: RuleParams) -> Tensor:
    """Every position with score > threshold, but at most 70 % of them (5 to 20); always the best (arXiv 2507.18578)."""
    most = (score.isfinite().sum(dim=-1) * _WINO_SHARE).long().clamp(*_WINO_MOST)
    return ((score > params.threshold[:, None]) & (_rank(score) < most[:, None])) | _best(score)


def unconfirmed(commits: Tensor, standing: Tensor, params: RuleParams) -> Tensor:
    """WINO's verification: every token that the model, not seeing it, gives less than ``verify_threshold``."""
    doubted = standing.isfinite() & (standing < params.verify_threshold[:, None])
    return _least(standing, doubted, commits, doubted.sum(dim=-1))


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
    "d2f": Rule(d2f, Scoring(tempered=True, second=Score.PROBABILITY), by_two=True),
    "joint_threshold": Rule(dynamic),
    "entropy_bound": Rule(entropy_bound, Scoring(Score.NEGATIVE_ENTROPY, tempered=True)),
    "eb": Rule(eb, Scoring(tempered=True, second=Score.NEGATIVE_ENTROPY), by_two=True),
    "local_leap": Rule(local_leap, Scoring(dtype=torch.float64)),
    "hierarchy": Rule(hierarchy),
    "credit": Rule(threshold),
    "klass": Rule(klass, Scoring(dtype=torch.float64), by_two=True),
    "prophet": Rule(prophet, Scoring(second=Score.GAP), by_two=True),
    "saber": Rule(saber, Scoring(dtype=torch.float64), remask=fallen, by_two=True),
    "wino": Rule(wino, Scoring(dtype=torch.float64), remask=unconfirmed),
}
assert set(RULES) == set(RULE_TRAITS), "every rule has a row here and its traits in params.py"


def gap_bound(early: float, progress: float) -> float:
    """Prophet's bound on the mean gap: it falls to two thirds and to a third as a text's thirds are decided."""
    return early * (1.0 if progress < 1 / 3 else 2 / 3 if progress < 2 / 3 else 1 / 3)


def scoring_of(params: DecodingParams) -> Scoring:
    """What the rows of a request are scored by: what its rule says, or what it chose itself."""
    scoring = RULES[params.rule].scoring
    return replace(scoring, kind=_KINDS[params.score]) if "score" in RULE_TRAITS[params.rule].options else scoring


def _rank(score: Tensor) -> Tensor:
    """Each position's place from the most confident (0) on; the leftmost of equals comes first."""
    order = torch.argsort(score, dim=-1, descending=True, stable=True)
    places = torch.arange(score.shape[-1], device=score.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, places)


def _least(number: Tensor, eligible: Tensor, commits: Tensor, count: Tensor) -> Tensor:
    """The ``count`` [S] positions of the smallest ``number``, if ``eligible``; always fewer than ``commits``."""
    rank = _rank(torch.where(eligible, -number, -torch.inf))
    count = torch.minimum(count, commits.sum(dim=-1) - 1)
    return eligible & (rank < count[:, None])


def _best(score: Tensor) -> Tensor:
    """True at the most confident position of each segment that has a masked one."""
    best = score.max(dim=-1, keepdim=True)
    positions = torch.arange(score.shape[-1], device=score.device)
    return (positions == best.indices) & best.values.isfinite()

"""From logits to one proposal per candidate position: a token and how sure the model is of it.

Shape letters: M candidate rows, V vocabulary. No [M, V] tensor of probabilities is built for greedy rows that go by
the likeliest token's probability alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial

import torch
from torch import Tensor

from unmask.decoding.recollection import Recall

_CERTAIN_GAP = 16.0  # where nothing else is possible: that of a probability of 1 - 1e-7
_EPSILON = 1e-10  # keeps log(0) out of the entropy, as the reference has it


class Score(Enum):
    """What a rule goes by; larger is surer."""

    PROBABILITY = "of the proposed token"
    MARGIN = "probability of the likeliest token less that of the next"
    NEGATIVE_ENTROPY = "sum of p log p"
    CHANCE = "a draw, whatever the logits are"
    GAP = "logit of the likeliest token less that of the next"


# What an end token scores that is put last: no more than anything else can.
_LEAST = dict.fromkeys(Score, 0.0) | {Score.NEGATIVE_ENTROPY: -1e6}


@dataclass(slots=True)
class EndTokens:
    """What may become of end tokens ``ids`` [n], per row: ``never`` proposed, or ``last`` to be committed; bool [M]."""

    ids: Tensor
    never: Tensor
    last: Tensor


@dataclass(slots=True)
class Sampling:
    """How to draw, one entry per row: ``temperature`` float32 (above 0), ``top_p`` float64, ``top_k`` int64 (0: off),
    ``draw`` float64 in [0, 1).

    ``greedy`` bool [M]: take the likeliest token after all; only the score is that of the filtered distribution.
    ``filtered``: whether top_p or top_k cut anything in some row.
    """

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    draw: Tensor
    greedy: Tensor
    filtered: bool

    def row(self, row: int) -> Sampling:
        """How to draw in one ``row`` alone."""
        one = slice(row, row + 1)
        return Sampling(
            self.temperature[one], self.top_p[one], self.top_k[one], self.draw[one], self.greedy[one], self.filtered
        )


@dataclass(slots=True)
class Chances:
    """Draws [M] float64 for scores that leave something to chance, and Dream's ``alg_temp`` [M] (above 0)."""

    draw: Tensor
    alg_temp: Tensor


@dataclass(frozen=True, slots=True)
class Scoring:
    """What rows are scored by: the ``kind``, in the precision ``dtype`` in which the reference computes it.

    ``tempered``: of the distribution after temperature, top-p and top-k, also when the likeliest token is taken
    (Dream, D2F); otherwise of the model's own (LLaDA, Fast-dLLM). ``second``: a number that the rule looks at besides.
    """

    kind: Score = Score.PROBABILITY
    dtype: torch.dtype = torch.float32
    tempered: bool = False
    second: Score | None = None


@dataclass(slots=True)
class Proposals:
    """Per row, [M]: ``token`` and the ``likeliest`` token int64 (the same for greedy rows), ``score`` of ``token``.

    Where the rule remasks, ``token`` is the one that stands in a row that is decided already. ``second`` is there under
    rules that look at another number besides. The score is NaN where the logits hold NaN or plus infinity, and there
    alone.
    """

    token: Tensor
    likeliest: Tensor
    score: Tensor
    second: Tensor | None = None


def propose(
    logits: Tensor,
    mask_id: int | None,
    scoring: Scoring,
    ends: EndTokens | None = None,
    sampling: Sampling | None = None,
    chances: Chances | None = None,
    decided: Tensor | None = None,
    recall: Recall | None = None,
    given: tuple[Tensor, Tensor] | None = None,
) -> Proposals:
    """Proposals for ``logits`` [M, V] float32, which are overwritten; scores in ``scoring.dtype``.

    The mask is never proposed; its logit still counts in the softmax, as in the references. ``ends`` is None when
    end tokens are free in every row, ``sampling`` when the rows are greedy: then the likeliest token is proposed.
    ``chances`` are there if some row's score is left to chance. ``decided`` [M] int64: the tokens to score where some
    are decided, -1 elsewhere. ``recall``: what the rule remembers of the rows, and changes here. ``given``: the
    proposed and the likeliest tokens [M], if they are chosen already and ``recall`` has read: only scores are wanted.
    """
    if ends is not None:
        _forbid(logits, ends.ids, ends.never)
    token, likeliest = given or (None, likeliest_tokens(logits, mask_id))
    if token is None and recall is not None and recall.read(logits, likeliest):
        likeliest = likeliest_tokens(logits, mask_id)
    finite = logits.gather(1, likeliest[:, None]).squeeze(1).isfinite()  # argmax takes NaN for the largest
    drawn = None
    if sampling is not None and (token is None or scoring.tempered):
        drawn = distribution(logits, mask_id, sampling)
    if token is None:
        token = likeliest
        if drawn is not None and sampling is not None:
            token = torch.where(sampling.greedy, likeliest, draw_tokens(drawn, mask_id, likeliest, sampling.draw))
    if decided is not None:
        token = torch.where(decided < 0, token, decided)
    if ends is not None:
        _forbid(logits, ends.ids, ends.last)
    measure = partial(_measure, logits, drawn if scoring.tempered else None, mask_id, token, scoring.dtype, ends)
    score = measure(scoring.kind)
    second = None
    if scoring.second is not None:
        second = score if scoring.second is scoring.kind else measure(scoring.second)
    if recall is not None:
        second = recall.finish(score, decided)
    if chances is not None:
        score = _with_chances(score.double(), scoring, chances)
    return Proposals(token, likeliest, torch.where(finite, score, torch.nan), second)


def _measure(
    logits: Tensor,
    drawn: Tensor | None,
    mask_id: int | None,
    token: Tensor,
    dtype: torch.dtype,
    ends: EndTokens | None,
    kind: Score,
) -> Tensor:
    """Score [M] of ``token`` [M] under the distribution ``drawn`` from, or the model's own; that of ``ends`` is least
    where they come last.
    """
    if drawn is None:
        number = _score(logits.to(dtype), mask_id, token, kind)
    else:
        number = _score_of(drawn, token, kind).to(dtype)
    return number if ends is None else torch.where(ends.last & torch.isin(token, ends.ids), _LEAST[kind], number)


def _forbid(logits: Tensor, ids: Tensor, rows: Tensor) -> None:
    """Set ``ids`` to -inf in those of the M rows where ``rows`` [M] is True."""
    logits[:, ids] = torch.where(rows[:, None], -torch.inf, logits[:, ids])


def _without(logits: Tensor, mask_id: int) -> Tensor:
    logits = logits.clone()
    logits[:, mask_id] = -torch.inf
    return logits


def likeliest_tokens(logits: Tensor, mask_id: int | None) -> Tensor:
    """The token [M] with the largest logit in each row, the mask left out."""
    if mask_id is None:
        return logits.argmax(dim=-1)
    mask_logit = logits[:, mask_id].clone()
    logits[:, mask_id] = -torch.inf
    token = logits.argmax(dim=-1)
    logits[:, mask_id] = mask_logit
    return token


def _score(logits: Tensor, mask_id: int | None, token: Tensor, kind: Score) -> Tensor:
    """Score [M] of ``token`` [M] under the model's own distribution."""
    if kind is Score.GAP:
        proposable = logits if mask_id is None else _without(logits, mask_id)
        best = proposable.topk(2, dim=-1).values
        return (best[:, 0] - best[:, 1]).nan_to_num(nan=torch.nan, posinf=_CERTAIN_GAP)
    if kind in (Score.PROBABILITY, Score.CHANCE):
        chosen = logits.gather(1, token[:, None]).squeeze(1)
        return torch.exp(chosen - torch.logsumexp(logits, dim=-1))
    return _score_of(torch.softmax(logits, dim=-1), token, kind)


def _score_of(probability: Tensor, token: Tensor, kind: Score) -> Tensor:
    """Score [M] of ``token`` [M] under ``probability`` [M, V]."""
    if kind is Score.MARGIN:
        best = probability.topk(2, dim=-1).values
        return best[:, 0] - best[:, 1]
    if kind is Score.NEGATIVE_ENTROPY:
        return (probability * torch.log(probability + _EPSILON)).sum(dim=-1)
    return probability.gather(1, token[:, None]).squeeze(1)


def distribution(logits: Tensor, mask_id: int | None, sampling: Sampling) -> Tensor:
    """Probabilities [M, V] float64 after temperature and filters; the likeliest token but the mask is always kept."""
    # Relative to the largest, so that no temperature, however small, makes infinities of more than one sign.
    relative = logits - logits.max(dim=-1, keepdim=True).values
    probability = torch.softmax((relative / sampling.temperature[:, None]).double(), dim=-1)
    if not sampling.filtered:
        return probability
    ordered, tokens = torch.sort(probability, dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[-1], device=logits.device)
    top_k = sampling.top_k[:, None]
    kept = (ordered.cumsum(dim=-1) - ordered < sampling.top_p[:, None]) & ((top_k == 0) | (rank < top_k))
    if mask_id is not None:
        kept |= rank == (tokens != mask_id).long().argmax(dim=-1, keepdim=True)
    kept[:, 0] = True
    ordered = ordered * kept
    return torch.zeros_like(ordered).scatter_(1, tokens, ordered / ordered.sum(dim=-1, keepdim=True))


def draw_tokens(probability: Tensor, mask_id: int | None, likeliest: Tensor, draw: Tensor) -> Tensor:
    """A token per row by inverse transform in the vocabulary's order, the mask left out."""
    usable = probability
    if mask_id is not None:
        usable = probability.clone()
        usable[:, mask_id] = 0.0
    cumulative = usable.cumsum(dim=-1)
    total = cumulative[:, -1:]
    index = torch.searchsorted(cumulative, draw[:, None] * total, right=True).squeeze(1)
    # The product may round up to the total, which lies beyond all tokens; and all else may round to nothing.
    beyond = (index >= cumulative.shape[-1]) | (total.squeeze(1) == 0)
    return torch.where(beyond, likeliest, index)


def _with_chances(score: Tensor, scoring: Scoring, chances: Chances) -> Tensor:
    """Scores [M] that chance has a part in: a draw alone, negated, or under ``alg_temp`` so that the n best are n
    samples without replacement from the softmax of the scores (Gumbel noise).
    """
    if scoring.kind is Score.CHANCE:
        return -chances.draw
    gumbel = -torch.log(-torch.log(chances.draw.clamp(min=torch.finfo(torch.float64).tiny)))
    return score / chances.alg_temp + gumbel

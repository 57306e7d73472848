"""From logits to one proposal per candidate position: a token and how sure the model is of it.

Shape letters: M candidate rows, V vocabulary. No [M, V] tensor of probabilities is built for greedy rows that go by
the likeliest token's probability alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

_EPSILON = 1e-10  # keeps log(0) out of the entropy, as the reference has it


class Score(Enum):
    """What a rule goes by; larger is surer."""

    PROBABILITY = "of the proposed token"
    MARGIN = "probability of the likeliest token less that of the next"
    NEGATIVE_ENTROPY = "sum of p log p"
    CHANCE = "a draw, whatever the logits are"


# What an end token scores that is put last: no more than anything else can.
_LEAST = {Score.PROBABILITY: 0.0, Score.MARGIN: 0.0, Score.NEGATIVE_ENTROPY: -1e6, Score.CHANCE: 0.0}


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

    ``greedy`` bool: take the likeliest token after all; only the score is that of the filtered distribution.
    ``tempered`` bool: see ``Rule``.
    """

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    draw: Tensor
    greedy: Tensor
    tempered: Tensor


@dataclass(slots=True)
class Proposals:
    """Per row, [M]: ``token`` and the ``likeliest`` token int64 (the same for greedy rows), ``score``."""

    token: Tensor
    likeliest: Tensor
    score: Tensor


def propose(
    logits: Tensor,
    mask_id: int | None,
    score: Score,
    score_dtype: torch.dtype,
    ends: EndTokens | None,
    sampling: Sampling | None,
) -> Proposals:
    """Proposals for ``logits`` [M, V] float32, which are overwritten; ``score`` in ``score_dtype``.

    The mask is never proposed; its logit still counts in the softmax, as in the references. ``ends`` is None when
    end tokens are free in every row, ``sampling`` when the rows are greedy: then the likeliest token is proposed.
    """
    if ends is not None:
        _forbid(logits, ends.ids, ends.never)
    drawn = None if sampling is None else _draw(logits, mask_id, score, sampling)
    likeliest = _likeliest(logits, mask_id)
    token = likeliest if drawn is None else drawn.token
    if ends is not None:
        _forbid(logits, ends.ids, ends.last)
    scores = _score(logits.to(score_dtype), token, score)
    if sampling is not None and drawn is not None:
        scores = torch.where(sampling.tempered, drawn.score.to(score_dtype), scores)
    if ends is not None:
        scores = torch.where(ends.last & torch.isin(token, ends.ids), _LEAST[score], scores)
    return Proposals(token, likeliest, scores)


def _forbid(logits: Tensor, ids: Tensor, rows: Tensor) -> None:
    """Set ``ids`` to -inf in those of the M rows where ``rows`` [M] is True."""
    logits[:, ids] = torch.where(rows[:, None], -torch.inf, logits[:, ids])


def _likeliest(logits: Tensor, mask_id: int | None) -> Tensor:
    if mask_id is None:
        return logits.argmax(dim=-1)
    mask_logit = logits[:, mask_id].clone()
    logits[:, mask_id] = -torch.inf
    token = logits.argmax(dim=-1)
    logits[:, mask_id] = mask_logit
    return token


def _score(logits: Tensor, token: Tensor, score: Score) -> Tensor:
    """Score [M] of ``token`` [M] under the model's own distribution."""
    if score in (Score.PROBABILITY, Score.CHANCE):
        chosen = logits.gather(1, token[:, None]).squeeze(1)
        return torch.exp(chosen - torch.logsumexp(logits, dim=-1))
    probability = torch.softmax(logits, dim=-1)
    return _margin(probability.topk(2, dim=-1).values) if score is Score.MARGIN else _negative_entropy(probability)


def _margin(descending: Tensor) -> Tensor:
    return descending[:, 0] - descending[:, 1]


def _negative_entropy(probability: Tensor) -> Tensor:
    return (probability * torch.log(probability + _EPSILON)).sum(dim=-1)


@dataclass(slots=True)
class _Drawn:
    """Tokens [M] and their scores [M] under the tempered, filtered distribution."""

    token: Tensor
    score: Tensor


def _draw(logits: Tensor, mask_id: int | None, score: Score, sampling: Sampling) -> _Drawn:
    """A token per row by inverse transform over the sorted, filtered distribution, the mask left out."""
    # Relative to the largest, so that no temperature, however small, makes infinities of more than one sign.
    relative = logits - logits.max(dim=-1, keepdim=True).values
    ordered, tokens = torch.sort(relative / sampling.temperature[:, None], dim=-1, descending=True, stable=True)
    probability = torch.softmax(ordered.double(), dim=-1)
    usable = tokens != mask_id if mask_id is not None else torch.ones_like(tokens, dtype=torch.bool)
    best = usable.long().argmax(dim=-1, keepdim=True)
    before = torch.cumsum(probability, dim=-1) - probability
    rank = torch.arange(logits.shape[-1], device=logits.device)
    top_k = sampling.top_k[:, None]
    kept = (before < sampling.top_p[:, None]) & ((top_k == 0) | (rank < top_k)) | (rank == best)
    probability = probability * kept
    probability = probability / probability.sum(dim=-1, keepdim=True)
    cumulative = torch.cumsum(probability * usable, dim=-1)
    index = torch.searchsorted(cumulative, sampling.draw[:, None] * cumulative[:, -1:], right=True)
    last = (rank * (kept & usable)).max(dim=-1, keepdim=True).values
    index = torch.where(sampling.greedy[:, None], best, torch.minimum(index, last))
    token = tokens.gather(1, index).squeeze(1)
    if score is Score.MARGIN:
        return _Drawn(token, _margin(probability))
    if score is Score.NEGATIVE_ENTROPY:
        return _Drawn(token, _negative_entropy(probability))
    return _Drawn(token, probability.gather(1, index).squeeze(1))

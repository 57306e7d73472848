"""From logits to one proposal per masked position: a token and how sure the model is of it.

Shape letters: M masked rows, V vocabulary. No [M, V] tensor of probabilities is built for greedy rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


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

    ``tempered`` bool: the score is the drawn token's probability under the filtered, tempered distribution (D2F);
    otherwise under the model's own (LLaDA, Fast-dLLM).
    """

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor
    draw: Tensor
    tempered: Tensor


def propose(
    logits: Tensor, mask_id: int, score_dtype: torch.dtype, ends: EndTokens | None, sampling: Sampling | None
) -> tuple[Tensor, Tensor]:
    """Tokens [M] int64 and scores [M] ``score_dtype`` for ``logits`` [M, V] float32, which are overwritten.

    The mask is never proposed; its logit still counts in the softmax, as in the references. ``ends`` is None when
    end tokens are free in every row, ``sampling`` when the rows are greedy: then the likeliest token is proposed.
    """
    if ends is not None:
        _forbid(logits, ends.ids, ends.never)
    mask_logit = logits[:, mask_id].clone()
    logits[:, mask_id] = -torch.inf
    token, probability = _draw(logits, sampling) if sampling is not None else (logits.argmax(dim=-1), None)
    logits[:, mask_id] = mask_logit
    if ends is not None:
        _forbid(logits, ends.ids, ends.last)
    chosen = logits.gather(1, token[:, None]).squeeze(1).to(score_dtype)
    score = torch.exp(chosen - torch.logsumexp(logits.to(score_dtype), dim=-1))
    if sampling is not None and probability is not None:
        tempered = sampling.tempered
        if ends is not None:  # an end token that is put last keeps its score of zero
            tempered = tempered & ~(ends.last & torch.isin(token, ends.ids))
        score = torch.where(tempered, probability.to(score_dtype), score)
    return token, score


def _forbid(logits: Tensor, ids: Tensor, rows: Tensor) -> None:
    """Set ``ids`` to -inf in those of the M rows where ``rows`` [M] is True."""
    logits[:, ids] = torch.where(rows[:, None], -torch.inf, logits[:, ids])


def _draw(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """A token per row by inverse transform over the sorted, filtered distribution, and its probability there."""
    # Relative to the largest, so that no temperature, however small, makes infinities of more than one sign.
    relative = logits - logits.max(dim=-1, keepdim=True).values
    ordered, token = torch.sort(relative / sampling.temperature[:, None], dim=-1, descending=True, stable=True)
    probability = torch.softmax(ordered.double(), dim=-1)
    before = torch.cumsum(probability, dim=-1) - probability
    top_k = sampling.top_k[:, None]
    rank = torch.arange(logits.shape[-1], device=logits.device)
    kept = (before < sampling.top_p[:, None]) & ((top_k == 0) | (rank < top_k))
    kept[:, 0] = True
    probability = probability * kept
    cumulative = torch.cumsum(probability, dim=-1)
    total = cumulative[:, -1:]
    index = torch.searchsorted(cumulative, sampling.draw[:, None] * total, right=True)
    index = torch.minimum(index, kept.sum(dim=-1, keepdim=True) - 1)
    return token.gather(1, index).squeeze(1), (probability.gather(1, index) / total).squeeze(1)

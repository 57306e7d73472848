"""Log-probabilities of chosen tokens and of the likeliest alternatives, under the model's own distribution.

Shape letters: N rows, V vocabulary, K alternatives.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# What a probability too small for its type counts as: JSON has no infinity.
LEAST = -9999.0


@dataclass(slots=True)
class Logprobs:
    """``chosen`` [N] float32 are those of the chosen tokens; ``ids`` int64 and ``values`` float32, [N, K], those of the
    likeliest tokens other than the mask, best first.
    """

    chosen: Tensor
    ids: Tensor
    values: Tensor


def logprobs_of(logits: Tensor, token: Tensor, count: int, mask_id: int | None) -> Logprobs:
    """Of ``logits`` [N, V] float32, which are overwritten, for ``token`` [N] and ``count`` alternatives.

    The mask's probability is part of the whole, as it is in confidences, but the mask is never proposed: it is no
    alternative.
    """
    logprobs = torch.log_softmax(logits, dim=-1, out=logits).clamp_(min=LEAST)
    chosen = logprobs.gather(1, token[:, None]).squeeze(1)
    if mask_id is not None:
        logprobs[:, mask_id] = -torch.inf
    values, ids = logprobs.topk(min(count, logprobs.shape[1] - (mask_id is not None)), dim=-1)
    return Logprobs(chosen, ids, values)

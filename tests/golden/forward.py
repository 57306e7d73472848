"""Raw logits of whole sequences, straight from the model."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.models.base import AttentionGroup, Model, StepContext
from unmask.models.linear import AdaptedRows


@torch.inference_mode()
def logits_of(
    model: Model, *sequences: list[int], visible: list[int] | None = None, adapters: dict[int, int] | None = None
) -> Tensor:
    """Logits of all rows of ``sequences``, concatenated. ``visible[i]`` bounds the keys that row i sees.

    ``adapters`` gives the number of the adapter for the sequences that go through one.
    """
    groups, first = [], 0
    for ids in sequences:
        rows = slice(first, first + len(ids))
        keys = torch.arange(first, first + len(ids))[None]
        mask = None
        if visible is not None:
            mask = (torch.arange(len(ids))[None] < torch.tensor(visible)[:, None])[None, None]
        groups.append(AttentionGroup(rows, keys, mask))
        first = rows.stop
    step = StepContext(
        token_ids=torch.tensor([token for ids in sequences for token in ids]),
        positions=torch.cat([torch.arange(len(ids)) for ids in sequences]),
        write_slots=torch.arange(first),
        groups=groups,
        adapted=[
            AdaptedRows(adapter, torch.arange(first)[groups[index].rows]) for index, adapter in (adapters or {}).items()
        ],
    )
    return model.head(model.forward(step, model.new_cache(first)))

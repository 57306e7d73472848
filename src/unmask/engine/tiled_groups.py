"""Attention groups whose arithmetic does not depend on who shares the step: one a span, in tiles of fixed shape.

A span's rows are filled up to whole tiles, its keys to a multiple of what the kernel takes at a time. Keys that a row
does not see weigh exactly nothing, so a row comes out the same whatever the window that it is computed in.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from unmask.engine.scheduler import Span
from unmask.engine.visibility import Mask, recent_keys, seen_keys, seen_slots
from unmask.models.base import AttentionGroup
from unmask.models.tiles import KEY_TILE, TILE


def tiled_group(span: Span, first_row: int, device: torch.device, sliding_window: int) -> AttentionGroup:
    """The group of ``span``, whose rows begin at ``first_row``; its keys are always gathered."""
    slots = seen_slots(span)
    keys = np.full(_round_up(len(slots), KEY_TILE), slots[0])
    keys[: len(slots)] = slots
    seen = seen_keys([span])
    if seen is None:
        seen = np.ones((1, span.rows, len(slots)), dtype=np.bool_)
    sliding = recent_keys([span], seen, sliding_window) if sliding_window else None
    rows = slice(first_row, first_row + span.rows)
    return AttentionGroup(
        rows,
        torch.from_numpy(keys[None]).to(device),
        _tiles(seen, len(keys), device),
        None if sliding is None else _tiles(sliding, len(keys), device),
        tile=TILE,
    )


def _round_up(count: int, multiple: int) -> int:
    return count + -count % multiple


def _tiles(mask: Mask, key_count: int, device: torch.device) -> Tensor:
    """``mask`` [1, Q, K] tile by tile: [tiles, 1, TILE, key_count]. Rows that only fill a tile see the first key."""
    _, rows, keys = mask.shape
    filled = np.zeros((_round_up(rows, TILE), key_count), dtype=np.bool_)
    filled[:rows, :keys] = mask[0]
    filled[rows:, 0] = True
    return torch.from_numpy(filled).to(device).view(-1, 1, TILE, key_count)

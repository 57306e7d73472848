"""Attention groups whose arithmetic does not depend on who shares the step: one a span, in tiles of fixed shape.

A span's rows are filled up to whole tiles, its keys to a multiple of what the kernel takes at a time. Keys that a row
does not see weigh exactly nothing, so a row comes out the same whatever the window that it is computed in.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.engine.scheduler import Span
from unmask.models.base import AttentionGroup
from unmask.models.tiles import KEY_TILE, TILE


def tiled_group(span: Span, first_row: int, device: torch.device, sliding_window: int) -> AttentionGroup:
    """The group of ``span``, whose rows begin at ``first_row``; its keys are always gathered."""
    window, slots = span.window, span.sequence.slots(span.unconditional)
    keys = np.full(_round_up(window.key_end, KEY_TILE), slots[0])
    keys[: window.key_end] = slots[: window.key_end]
    newest = np.ones(_round_up(span.rows, TILE), dtype=np.int64)
    newest[: span.rows] = window.key_end if window.visible is None else window.visible
    seen = np.arange(len(keys)) < newest[:, None]
    sliding = None
    if sliding_window:
        oldest = np.zeros(len(newest), dtype=np.int64)
        start = window.end if window.canvas_start is None else window.canvas_start
        oldest[: span.rows] = np.minimum(window.positions, start) - sliding_window + 1
        sliding = _upload(seen & (np.arange(len(keys)) >= oldest[:, None]), device)
    rows = slice(first_row, first_row + span.rows)
    return AttentionGroup(rows, torch.from_numpy(keys[None]).to(device), _upload(seen, device), sliding, tile=TILE)


def _round_up(count: int, multiple: int) -> int:
    return count + -count % multiple


def _upload(mask: NDArray[np.bool_], device: torch.device) -> Tensor:
    """``mask`` [Q, K] tile by tile: [tiles, 1, TILE, K]."""
    return torch.from_numpy(mask).to(device).view(-1, 1, TILE, mask.shape[1])

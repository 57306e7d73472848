"""Rotary embedding, and attention over the cache: what every layer of every model does with its heads.

Shape letters as in ``models/base.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.models.base import AttentionGroup
from unmask.models.tiles import filled


def rotation(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine [R, 1, N / 2] for ``positions`` [R] and radians per position ``frequencies`` [N / 2].

    They are float32 whatever the weights are, as in the references.
    """
    angles = torch.outer(positions.float(), frequencies).unsqueeze(1)
    return angles.cos(), angles.sin()


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Rotary embedding in place on [R, heads, N], halves rotated against each other; ``cos``, ``sin`` [R, 1, N / 2]."""
    first, second = heads.chunk(2, dim=-1)
    rotated = first * cos - second * sin
    second.copy_(second * cos + first * sin)
    first.copy_(rotated)


def attend(
    query: Tensor,
    slots: Tensor,
    groups: Sequence[AttentionGroup],
    *,
    sliding: bool = False,
    scale: float | None = None,
) -> Tensor:
    """What the rows of ``query`` [R, H, E] see in a layer's cache ``slots`` [slots, 2 * G, E]: [R, H * E].

    ``sliding``: the layer has a sliding window. Scores are multiplied by ``scale``, 1 / sqrt(E) if it is not given.
    """
    heads, kv_heads = query.shape[1], slots.shape[1] // 2
    outputs = []
    for group in groups:
        seen, rows = _seen(group, slots), query[group.rows]
        if group.tile:
            rows = filled(rows, group.tile)
            seen = seen.expand(len(rows) // group.tile, -1, -1, -1)
        output = F.scaled_dot_product_attention(
            rows.view(len(seen), -1, *query.shape[1:]).transpose(1, 2),
            seen[:, :kv_heads],
            seen[:, kv_heads:],
            attn_mask=group.sliding_mask if sliding and group.sliding_mask is not None else group.mask,
            scale=scale,
            enable_gqa=heads != kv_heads,
        )
        output = output.transpose(1, 2).reshape(-1, heads * query.shape[2])
        outputs.append(output[: group.rows.stop - group.rows.start])
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _seen(group: AttentionGroup, slots: Tensor) -> Tensor:
    """Keys and values [S, 2 * G, K, E] of the slots that ``group`` sees."""
    if isinstance(group.keys, slice):
        return slots[group.keys].unsqueeze(0).transpose(1, 2)
    return slots.index_select(0, group.keys.flatten()).view(*group.keys.shape, *slots.shape[1:]).transpose(1, 2)

"""Arithmetic in which a row comes out the same, bit for bit, whatever other rows share the step.

Sums round by the order in which a kernel adds, and a kernel chooses that by the shapes it is given. So rows go through
in tiles of one size, the last one filled up with zeros: then all products have the same shapes, and what a row gives
depends neither on how many others there are nor on its place among them. Shape letters: R rows, I inputs, O outputs,
E experts.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

# Rows of a tile: in attention, torch's kernel for CPUs takes 32 queries at a time. An expert gets few rows of a step.
TILE, EXPERT_TILE = 32, 8
# Keys of a span are filled up to a multiple of this: the kernel takes as many at a time.
KEY_TILE = 512
# Elements of a call that torch computes in one thread, whatever the function.
_UNSPLIT = 2**14


def filled(rows: Tensor, tile: int = TILE) -> Tensor:
    """A copy of ``rows`` [R, ...] with rows of zeros after them, up to a multiple of ``tile``."""
    copied = rows.new_zeros(len(rows) + -len(rows) % tile, *rows.shape[1:])
    copied[: len(rows)] = rows
    return copied


def tiled_product(rows: Tensor, weight: Tensor, bias: Tensor | None = None, tile: int = TILE) -> Tensor:
    """``rows @ weight.T + bias`` [R, O] of ``rows`` [R, I], ``weight`` [O, I] and ``bias`` [O]."""
    return torch.cat([F.linear(part, weight, bias) for part in torch.split(filled(rows, tile), tile)])[: len(rows)]


def tiled_grouped_product(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """``rows[ends[e - 1] : ends[e]] @ weights[e].T`` for every e: [R, O] of [R, I], [E, O, I] and [E] int32."""
    products, start = rows.new_empty(len(rows), weights.shape[1]), 0
    for weight, end in zip(weights, ends.tolist(), strict=True):
        if end > start:
            products[start:end] = tiled_product(rows[start:end], weight, tile=EXPERT_TILE)
        start = end
    return products


def tiled_route(route: Callable[[Tensor], tuple[Tensor, Tensor]], rows: Tensor) -> tuple[Tensor, Tensor]:
    """The two tensors [R, ...] that ``route`` makes of ``rows`` [R, I]."""
    chosen, shares = zip(*map(route, torch.split(filled(rows), TILE)), strict=True)
    return torch.cat(chosen)[: len(rows)], torch.cat(shares)[: len(rows)]


def tiled_gate(gate: Callable[[Tensor], Tensor], gate_up: Tensor) -> Tensor:
    """``gate`` [R, I] of ``gate_up`` [R, 2 * I]: of each row by itself, with no thread's share ending within it.

    Vectors of elements and what is left over at the end of a share round functions like ``exp`` differently. A row's
    halves are no whole stretch of memory, so that each row is a loop of its own.
    """
    if gate_up.device.type != "cpu":
        return gate(gate_up)
    return torch.cat([gate(part) for part in torch.split(gate_up, max(1, _UNSPLIT // gate_up.shape[1]))])

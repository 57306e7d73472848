"""Training rows: a prompt, the clean answer, and two noised copies of the answer.

One row is ``[prompt | clean answer without its last block | noised copy | noised copy]``. The two copies hide
complementary positions, so every answer token is predicted exactly once. A noised block sees the prompt, the
clean blocks before it, and itself, which is exactly what it sees when text is generated block by block.

A pipelined row (as in discrete diffusion forcing) has no clean part: each copy hides more and more of its
successive blocks, and a block sees the noised blocks before it, as when several blocks are live at once.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .tokenizer import END, MASK

Ints = NDArray[np.int64]

PROMPT, CLEAN, COPY_A, COPY_B, PAD = 0, 1, 2, 3, 9
TAIL_WEIGHT = 0.15
"""Loss weight of the end tokens that only fill the canvas."""


@dataclass(slots=True)
class Row:
    """One training row, as parallel arrays."""

    tokens: Ints
    positions: Ints
    segment: Ints
    block: Ints
    target: Ints
    weight: NDArray[np.float32]
    pipelined: bool
    kind: int


@dataclass(slots=True)
class Batch:
    """Rows of similar length, padded together."""

    tokens: Tensor
    positions: Tensor
    allowed: Tensor
    wanted: Tensor
    target: Tensor
    weight: Tensor
    kind: Tensor


def canvas(answer: list[int], block_size: int, extra: int = 0) -> Ints:
    """The answer, an end token, and end tokens up to a block border (plus whole ``extra`` blocks)."""
    blocks = len(answer) // block_size + 1 + extra
    out = np.full(blocks * block_size, END, dtype=np.int64)
    out[: len(answer)] = answer
    return out


def noise(rng: np.random.Generator, blocks: int, size: int, high: float, rising: bool) -> NDArray[np.bool_]:
    """Which positions to hide: each block at its own ratio up to ``high``, sorted if ``rising``."""
    ratio = rng.uniform(0.0, high, blocks)
    if rising:
        ratio.sort()
    return rng.random(blocks * size) < np.repeat(ratio, size)


def build_row(
    rng: np.random.Generator,
    prompt: list[int],
    answer: list[int],
    kind: int,
    *,
    block_size: int,
    pipelined: bool,
    gentle: bool,
) -> Row:
    """Lay out one row; ``gentle`` hides at most half of each block."""
    clean = canvas(answer, block_size, extra=int(pipelined and rng.random() < 0.3))
    size, blocks, start = len(clean), len(clean) // block_size, len(prompt)
    index = np.arange(size) // block_size
    high = 0.5 if gentle else 1.0
    first = noise(rng, blocks, block_size, high, pipelined)
    independent = gentle or pipelined
    second = noise(rng, blocks, block_size, high, pipelined) if independent else ~first
    kept = 0 if pipelined else size - block_size
    weight = np.where(np.arange(size) > len(answer), TAIL_WEIGHT, 1.0).astype(np.float32)
    none = np.zeros(start + kept, dtype=np.float32)
    where = start + np.arange(size)
    return Row(
        tokens=np.concatenate([prompt, clean[:kept], np.where(first, MASK, clean), np.where(second, MASK, clean)]),
        positions=np.concatenate([np.arange(start), where[:kept], where, where]),
        segment=np.repeat([PROMPT, CLEAN, COPY_A, COPY_B], [start, kept, size, size]),
        block=np.concatenate([np.zeros(start, np.int64), index[:kept], index, index]),
        target=np.concatenate([np.zeros(start + kept, np.int64), clean, clean]),
        weight=np.concatenate([none, weight * first, weight * second]),
        pipelined=pipelined,
        kind=kind,
    )


def visibility(segment: Tensor, block: Tensor, pipelined: Tensor) -> Tensor:
    """Who sees whom: [rows, queries, keys]."""
    sq, sk = segment.unsqueeze(2), segment.unsqueeze(1)
    bq, bk = block.unsqueeze(2), block.unsqueeze(1)
    own = (sq == sk) & (bq == bk)
    clean_before = (sk == CLEAN) & (bk < bq) & (sq != PROMPT)
    noised_before = (sq == sk) & (bk < bq) & pipelined[:, None, None]
    return (sk == PROMPT) | own | clean_before | noised_before


def collate(rows: list[Row]) -> Batch:
    """Pad rows on the right and build their attention pattern."""
    length = max(len(row.tokens) for row in rows)

    def stack(name: str, fill: int) -> Tensor:
        first = getattr(rows[0], name)
        out = np.full((len(rows), length), fill, dtype=first.dtype)
        for i, row in enumerate(rows):
            values = getattr(row, name)
            out[i, : len(values)] = values
        return torch.from_numpy(out)

    weight = stack("weight", 0)
    wanted = weight > 0
    segment, block = stack("segment", PAD), stack("block", 0)
    kind = torch.tensor([row.kind for row in rows])[:, None].expand_as(wanted)
    return Batch(
        tokens=stack("tokens", END),
        positions=stack("positions", 0),
        allowed=visibility(segment, block, torch.tensor([row.pipelined for row in rows])),
        wanted=wanted,
        target=stack("target", 0)[wanted],
        weight=weight[wanted],
        kind=kind[wanted],
    )

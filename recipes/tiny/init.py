"""A head start: numbers as waves, and two layers that already know how to copy.

Embeddings are laid out by hand. Dimension 0 is the same for all tokens; a few dimensions hold the value of
a number as sines and cosines, so that a gated MLP can add numbers by multiplying waves; the next ones
identify the token; the last ones are left empty for what the first layer writes there. That layer has a head
that looks one token back and one that looks one token ahead. The second layer matches neighbours against
neighbours, in all four combinations, and copies what it finds: copying forwards and backwards is there from
the start.
"""

import math

import torch
from torch import Tensor

from .model import Block, TinyModel
from .tokenizer import MASK

PERIODS = (2, 5, 10, 20, 50, 100)
NUMBER = slice(1, 14)
IDENTITY = slice(14, 96)
PREVIOUS = slice(96, 112)
NEXT = slice(112, 128)
SCALE = 0.5
HEAD_SCALE = 0.06
SKETCH = 16


def waves(value: int) -> Tensor:
    """Thirteen numbers that describe a number: its phase at six periods, and its size."""
    phases = [2 * math.pi * value / period for period in PERIODS]
    linear = (value - 50) / 30
    return torch.tensor([f(p) for p in phases for f in (math.cos, math.sin)] + [linear])


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Random rows at right angles to each other."""
    square: Tensor = torch.linalg.qr(torch.randn(columns, rows, generator=generator))[0]
    return square.T


def embeddings(size: int, width: int, numbers: list[tuple[int, int]], generator: torch.Generator) -> Tensor:
    """One vector per token, entries of about unit size."""
    table = torch.zeros(size, width)
    identity = IDENTITY.stop - IDENTITY.start
    table[:, 0] = 1.0
    table[:, IDENTITY] = torch.randn(size, identity, generator=generator)
    shared = torch.randn(101, identity, generator=generator)
    for token, value in numbers:
        table[token, NUMBER] = 1.5 * waves(value)
        table[token, IDENTITY] = 0.8 * shared[value] + 0.4 * table[token, IDENTITY]
    table[MASK, IDENTITY] = 0.0
    table[MASK, NUMBER] = 2.5 * torch.randn(NUMBER.stop - NUMBER.start, generator=generator)
    return table


def look_beside(block: Block, head: int, offset: int, into: slice, generator: torch.Generator) -> None:
    """Make ``head`` look ``offset`` places away and write a sketch of that token ``into`` the stream."""
    size = block.q_proj.weight.shape[0] // block.heads
    half, base = size // 2, head * size
    theta = 10_000.0 ** (-torch.arange(half) / half)
    sharp = torch.where(torch.arange(half) < 8, 5.0, 0.0)
    for weight in (block.q_proj.weight, block.k_proj.weight, block.v_proj.weight):
        weight[base : base + size] *= 0.3
    block.k_proj.weight[base : base + half, 0] = sharp
    block.q_proj.weight[base : base + half, 0] = sharp * torch.cos(theta * offset)
    block.q_proj.weight[base + half : base + size, 0] = sharp * torch.sin(theta * offset)
    sketch = orthonormal(SKETCH, IDENTITY.stop - IDENTITY.start, generator)
    block.v_proj.weight[base : base + SKETCH, IDENTITY] = sketch
    block.attn_out.weight[into, base : base + SKETCH] += SCALE * torch.eye(SKETCH)


def match_and_copy(block: Block, head: int, query: slice, key: slice, generator: torch.Generator) -> None:
    """Make ``head`` find where the ``key`` sketch equals its own ``query`` sketch, and copy from there."""
    size = block.q_proj.weight.shape[0] // block.heads
    half, base = size // 2, head * size
    slow = torch.cat((torch.arange(8, half), torch.arange(half + 8, size))) + base
    for weight in (block.q_proj.weight, block.k_proj.weight):
        weight[base : base + size] *= 0.3
    block.q_proj.weight[slow, query] += 1.7 * torch.eye(SKETCH)
    block.k_proj.weight[slow, key] += 1.7 * torch.eye(SKETCH)
    sketch = orthonormal(size, IDENTITY.stop - IDENTITY.start, generator)
    block.v_proj.weight[base : base + size, IDENTITY] = sketch
    block.attn_out.weight[IDENTITY, base : base + size] += SCALE * sketch.T


@torch.no_grad()
def initialise(model: TinyModel, numbers: list[tuple[int, int]], seed: int) -> None:
    """Fill every weight."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            weight.fill_(1.0)
            continue
        out = 0.25 if "attn_out" in name or ".ff_out" in name else 0.6
        weight.copy_(torch.randn(weight.shape, generator=generator) * out / weight.shape[1] ** 0.5)
    transformer, shape = model.transformer, model.shape
    table = embeddings(shape.vocab_size, shape.d_model, numbers, generator)
    transformer.wte.weight.copy_(SCALE * table)
    table[:, 0] = 0.0
    table[MASK] = 0.0
    transformer.ff_out.weight.copy_(HEAD_SCALE * table)
    if shape.d_model != 128 or shape.n_heads != 4:
        return
    first, second, *_ = transformer.stack()
    look_beside(first, 0, -1, PREVIOUS, generator)
    look_beside(first, 1, +1, NEXT, generator)
    pairs = ((PREVIOUS, PREVIOUS), (NEXT, NEXT), (PREVIOUS, NEXT), (NEXT, PREVIOUS))
    for head, (query, key) in enumerate(pairs):
        match_and_copy(second, head, query, key, generator)

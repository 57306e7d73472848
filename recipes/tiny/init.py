"""A head start: numbers as waves, two layers that can copy, and two that can add.

The stream of 128 numbers is laid out by hand. The first entry is the same for all tokens; a few hold the value of a
number as sines and cosines; the next identify the token; the others are left empty for what the layers write.

Layer 0 has a head that looks one token back and one that looks one token ahead. Layer 1 matches neighbours against
neighbours, in all four combinations, and copies what it finds: forwards and backwards copying. Layer 2 looks at the
places of ``a``, ``op`` and ``b`` as seen from ``c`` in "a op b = c" and multiplies the waves of ``a`` and ``b``,
which gives those of ``a + b`` and ``a - b``; layer 3 lets the one through that ``op`` asks for. All of it is only a
starting point: every weight is trained, and the rest of each layer starts random.
"""

import math

import torch
from torch import Tensor

from .model import Block, TinyModel
from .tokenizer import MASK

PERIODS = (2, 5, 10, 20, 50, 100)
CONSTANT = 0
WAVES, SIZE = slice(1, 13), 13
IDENTITY = slice(14, 50)
PLUS, MINUS, MASKED = 50, 51, 52
LEFT, RIGHT = slice(54, 66), slice(66, 78)
OPERATOR = slice(78, 80)
SUM, DIFFERENCE = slice(80, 92), slice(92, 104)
RESERVED = slice(54, 104)
PREVIOUS, NEXT = slice(104, 116), slice(116, 128)
SCALE = 0.5
HEAD_SCALE = 0.06
SKETCH = 12


def waves(value: int) -> Tensor:
    """A number as its cosine and sine at six periods."""
    phases = [2 * math.pi * value / period for period in PERIODS]
    return torch.tensor([f(p) for p in phases for f in (math.cos, math.sin)])


def orthonormal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Random rows at right angles to each other."""
    square: Tensor = torch.linalg.qr(torch.randn(columns, rows, generator=generator))[0]
    return square.T


def embeddings(vocabulary: dict[str, int], width: int, generator: torch.Generator) -> Tensor:
    """One vector per token, entries of about unit size."""
    identity = IDENTITY.stop - IDENTITY.start
    table = 0.1 * torch.randn(len(vocabulary), width, generator=generator)
    table[:, :SIZE] = 0.0
    table[:, IDENTITY] = torch.randn(len(vocabulary), identity, generator=generator)
    for value in range(101):
        shared = torch.randn(identity, generator=generator)
        for token in (vocabulary[str(value)], vocabulary[f"Ġ{value}"]):
            table[token, WAVES] = 1.5 * waves(value)
            table[token, SIZE] = (value - 50) / 20
            table[token, IDENTITY] = 0.8 * shared + 0.4 * table[token, IDENTITY]
    table[vocabulary["Ġ+"], PLUS] = table[vocabulary["Ġ-"], MINUS] = 4.0
    table[MASK] = 0.0
    table[MASK, MASKED] = 6.0
    table[:, CONSTANT] = 1.0
    return table


def look(block: Block, head: int, offset: int, source: Tensor, into: slice, gain: float) -> None:
    """Make ``head`` attend ``offset`` places away and write what ``source`` reads there ``into`` the stream.

    Its score is a sum of cosines of the distance that peaks at ``offset``; the slowest pair of the rotation, which
    hardly turns, takes the common part away, so that a place does not win by its size.
    """
    size = block.q_proj.weight.shape[0] // block.heads
    half, base, read = size // 2, head * size, len(source)
    theta = 10_000.0 ** (-torch.arange(half) / half)
    score = torch.zeros(half)
    score[:4], score[-1] = torch.tensor((3.0, 1.5, 1.0, 0.5)), -3.5
    key = 4.0 * score.abs().sqrt()
    query = key * score.sign()
    for weight in (block.q_proj.weight, block.k_proj.weight, block.v_proj.weight):
        weight[base : base + size] *= 0.3
    block.k_proj.weight[base : base + half, CONSTANT] = key
    block.q_proj.weight[base : base + half, CONSTANT] = query * torch.cos(theta * offset)
    block.q_proj.weight[base + half : base + size, CONSTANT] = query * torch.sin(theta * offset)
    block.v_proj.weight[base : base + read] = source
    block.attn_out.weight[into, base : base + read] += gain * torch.eye(read)


def match_and_copy(block: Block, head: int, query: slice, key: slice, generator: torch.Generator) -> None:
    """Make ``head`` find where the ``key`` sketch equals its own ``query`` sketch, and copy from there."""
    size = block.q_proj.weight.shape[0] // block.heads
    half, base = size // 2, head * size
    slow = torch.cat((torch.arange(10, half), torch.arange(half + 10, size))) + base
    for weight in (block.q_proj.weight, block.k_proj.weight):
        weight[base : base + size] *= 0.3
    block.q_proj.weight[slow, query] += 1.8 * torch.eye(SKETCH)
    block.k_proj.weight[slow, key] += 1.8 * torch.eye(SKETCH)
    width = block.q_proj.weight.shape[1]
    numbers = select(WAVES, width)
    sketch = torch.zeros(size - len(numbers), width)
    sketch[:, IDENTITY] = orthonormal(len(sketch), IDENTITY.stop - IDENTITY.start, generator)
    both = torch.cat((numbers, sketch))
    block.v_proj.weight[base : base + size] = both
    block.attn_out.weight[:, base : base + size] += 0.3 * both.T


def select(part: slice, width: int) -> Tensor:
    """A matrix that reads one part of the stream."""
    return torch.eye(width)[part]


def multiply_waves(block: Block) -> None:
    """Write the waves of the sum and of the difference of the numbers in ``LEFT`` and ``RIGHT``.

    A gated unit and its mirror image multiply exactly: silu(x) y + silu(-x) (-y) = x y.
    """
    unit = 0
    for p in range(len(PERIODS)):
        cos, sin = 2 * p, 2 * p + 1
        terms = (  # left, right, into the wave of the sum, into the wave of the difference, signs
            (cos, cos, cos, 1.0, 1.0), (sin, sin, cos, -1.0, 1.0), (sin, cos, sin, 1.0, 1.0),
            (cos, sin, sin, 1.0, -1.0),
        )  # fmt: skip
        for left, right, into, in_sum, in_difference in terms:
            for sign in (1.0, -1.0):
                for weight in (block.ff_proj.weight, block.up_proj.weight):
                    weight[unit] = 0.0
                block.ff_proj.weight[unit, LEFT.start + left] = sign
                block.up_proj.weight[unit, RIGHT.start + right] = sign
                block.ff_out.weight[SUM.start + into, unit] = 0.25 * in_sum
                block.ff_out.weight[DIFFERENCE.start + into, unit] = 0.25 * in_difference
                unit += 1


def choose_result(block: Block) -> None:
    """Let the sum or the difference through, as the operator says, to where a number's waves belong."""
    unit = 0
    for operator, source in enumerate((SUM, DIFFERENCE)):
        for wave in range(source.stop - source.start):
            for weight in (block.ff_proj.weight, block.up_proj.weight):
                weight[unit] = 0.0
            block.ff_proj.weight[unit, OPERATOR.start + operator] = 2.0
            block.ff_proj.weight[unit, CONSTANT] = -1.0
            block.up_proj.weight[unit, source.start + wave] = 1.0
            block.ff_out.weight[WAVES.start + wave, unit] = 0.8
            unit += 1


@torch.no_grad()
def initialise(model: TinyModel, vocabulary: dict[str, int], seed: int) -> None:
    """Fill every weight."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim < 2:
            weight.fill_(1.0)
            continue
        writes = name.endswith(("attn_out.weight", "ff_out.weight"))
        spread = (0.1 if writes else 0.6) / weight.shape[1] ** 0.5
        weight.copy_(torch.randn(weight.shape, generator=generator) * spread)
        if writes and ".blocks." in name:
            weight[CONSTANT] = 0.0
            weight[RESERVED] = 0.0
    transformer, width = model.transformer, model.shape.d_model
    table = embeddings(vocabulary, width, generator)
    transformer.wte.weight.copy_(SCALE * table)
    table[:, CONSTANT] = 0.0
    table[MASK] = 0.0
    transformer.ff_out.weight.copy_(HEAD_SCALE * table)
    neighbours, copying, products, choice, *_ = transformer.stack()
    for head, (offset, into) in enumerate(((-1, PREVIOUS), (+1, NEXT))):
        sketch = torch.zeros(SKETCH, width)
        sketch[:, IDENTITY] = orthonormal(SKETCH, IDENTITY.stop - IDENTITY.start, generator)
        look(neighbours, head, offset, sketch, into, 0.3)
    pairs = ((PREVIOUS, PREVIOUS), (NEXT, NEXT), (PREVIOUS, NEXT), (NEXT, PREVIOUS))
    for head, (query, key) in enumerate(pairs):
        match_and_copy(copying, head, query, key, generator)
    signs = torch.eye(width)[[PLUS, MINUS]]
    look(products, 0, -4, select(WAVES, width), LEFT, 0.3)
    look(products, 1, -2, select(WAVES, width), RIGHT, 0.3)
    look(products, 2, -3, signs, OPERATOR, 0.3)
    multiply_waves(products)
    choose_result(choice)

"""SwiGLU, the feed-forward layer of every Llama-like model: ``down(silu(gate(x)) * up(x))``.

Shape letters: R rows, D hidden size, I intermediate size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import TensorReader
from unmask.models.linear import AdaptedRows, Linear


class SwiGlu:
    """``gate_up`` [2 * I, D] stacks the two halves, ``down`` [D, I] leads back."""

    def __init__(self, gate_up: Linear, down: Linear) -> None:
        self.gate_up = gate_up
        self.down = down

    @classmethod
    def read(cls, weights: TensorReader, names: tuple[str, str, str], hidden: int, intermediate: int) -> SwiGlu:
        """Take the matrices ``names``: gate, up and down."""
        gate, up, down = names
        return cls(
            gate_up=Linear.read(weights, [(gate, intermediate), (up, intermediate)], hidden),
            down=Linear.read(weights, [(down, hidden)], intermediate),
        )

    def __call__(self, rows: Tensor, adapted: Sequence[AdaptedRows] = ()) -> Tensor:
        """[R, D] of ``rows`` [R, D]."""
        return self.down(gated(self.gate_up(rows, adapted)), adapted)

    def linears(self) -> Iterator[Linear]:
        """Its matrix products."""
        yield self.gate_up
        yield self.down

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.gate_up.parameters + self.down.parameters


def gated(gate_up: Tensor) -> Tensor:
    """``silu(gate) * up`` [R, I] of the two halves of ``gate_up`` [R, 2 * I]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up

"""The gated MLP, a feed-forward layer: ``down(activation(gate(x)) * up(x))``.

Shape letters: R rows, D hidden size, I intermediate size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import TensorReader
from unmask.models.linear import AdaptedRows, Linear
from unmask.models.tiles import tiled_gate

Gate = Callable[[Tensor], Tensor]


def swiglu(gate_up: Tensor) -> Tensor:
    """``silu(gate) * up`` [R, I] of the two halves of ``gate_up`` [R, 2 * I]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def geglu(gate_up: Tensor) -> Tensor:
    """``gelu(gate) * up`` [R, I] of the two halves of ``gate_up`` [R, 2 * I], by GELU's approximation with tanh."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh") * up


class GatedMlp:
    """``gate_up`` [2 * I, D] stacks the two halves that go through ``gate``; ``down`` [D, I] leads back."""

    def __init__(self, gate_up: Linear, down: Linear, gate: Gate = swiglu) -> None:
        self.gate_up = gate_up
        self.down = down
        self._gate = gate

    @classmethod
    def read(
        cls, weights: TensorReader, names: tuple[str, str, str], hidden: int, intermediate: int, gate: Gate = swiglu
    ) -> GatedMlp:
        """Take the matrices ``names``: gate, up and down."""
        gate_name, up_name, down_name = names
        return cls(
            gate_up=Linear.read(weights, [(gate_name, intermediate), (up_name, intermediate)], hidden),
            down=Linear.read(weights, [(down_name, hidden)], intermediate),
            gate=gate,
        )

    def __call__(self, rows: Tensor, adapted: Sequence[AdaptedRows] = ()) -> Tensor:
        """[R, D] of ``rows`` [R, D]."""
        return self.down(self._gate(self.gate_up(rows, adapted)), adapted)

    def tile(self) -> None:
        """Compute row by row the same, whatever rows share the step, from now on."""
        for linear in self.linears():
            linear.tile()
        self._gate = partial(tiled_gate, self._gate)

    def linears(self) -> Iterator[Linear]:
        """Its matrix products."""
        yield self.gate_up
        yield self.down

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return self.gate_up.parameters + self.down.parameters

"""Matrix products of the model, as data that adapters and quantisation can get at.

Shape letters: R rows, I inputs, O outputs, K rank of an adapter's update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import TensorReader
from unmask.models.int8 import Int8Weight
from unmask.models.tiles import tiled_product


@dataclass(slots=True)
class AdaptedRows:
    """The step's ``rows`` [n] int64, all different, that go through the adapter of number ``adapter``."""

    adapter: int
    rows: Tensor


class Linear:
    """``rows @ weight.T + bias``, for one or several matrices that share their input, stacked.

    ``parts`` are the names and output sizes of the stacked matrices, in order; ``weight`` [O, I], ``bias`` [O].
    """

    def __init__(self, parts: Sequence[tuple[str, int]], weight: Tensor, bias: Tensor | None = None) -> None:
        self.parts = tuple(parts)
        self.weight: Tensor | Int8Weight = weight
        self.bias = bias
        self._product: Callable[[Tensor, Tensor, Tensor | None], Tensor] = F.linear
        self._updates: dict[int, tuple[Tensor, Tensor]] = {}

    @classmethod
    def read(
        cls, weights: TensorReader, parts: Sequence[tuple[str, int]], inputs: int, *, bias: bool = False
    ) -> Linear:
        """Take the tensors ``<name>.weight`` [size, inputs] of all ``parts``, and ``<name>.bias`` [size] if any.

        If ``weights`` are to become ``int8`` they do at once, so that no two matrices are floats at the same time.
        """
        matrices = [weights.take(f"{name}.weight", (size, inputs)) for name, size in parts]
        biases = [weights.take(f"{name}.bias", (size,)) for name, size in parts if bias]
        linear = cls(parts, _stacked(matrices), _stacked(biases) if biases else None)
        if weights.int8:
            linear.quantize()
        return linear

    def __call__(self, rows: Tensor, adapted: Sequence[AdaptedRows] = ()) -> Tensor:
        """[R, O] of ``rows`` [R, I]; rows that ``adapted`` does not name come out as if there were no adapters."""
        if isinstance(self.weight, Tensor):
            output = self._product(rows, self.weight, self.bias)
        else:
            output = self.weight(rows) if self.bias is None else self.weight(rows).add_(self.bias)
        for group in adapted:
            if group.adapter in self._updates:
                down, up = self._updates[group.adapter]
                inner = self._product(rows[group.rows], down, None)
                output.index_add_(0, group.rows, self._product(inner, up, None))
        return output

    def attach(self, adapter: int, down: Tensor, up: Tensor) -> None:
        """Let the adapter of number ``adapter`` add ``up @ down`` to the weight: ``down`` [K, I], ``up`` [O, K]."""
        self._updates[adapter] = (down, up)

    def quantize(self) -> None:
        """Replace the float weight by an int8 one (``int8_unavailable`` tells where that cannot be); bias and adapters
        stay as they are.
        """
        if isinstance(self.weight, Tensor):
            self.weight = Int8Weight(self.weight)

    def tile(self) -> None:
        """Multiply in tiles of rows from now on; products of integers are the same in any order as it is."""
        self._product = tiled_product

    @property
    def parameters(self) -> int:
        """Number of weights, without the adapters'."""
        return self.weight.numel() + (0 if self.bias is None else self.bias.numel())


def _stacked(tensors: list[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors)

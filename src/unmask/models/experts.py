"""Mixture of experts: a router sends every row to a few SwiGLUs out of many, and weighs what comes back.

Shape letters: R rows, D hidden size, E experts, K experts used by a row, I their intermediate size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import TensorReader
from unmask.models.feed_forward import Gate, GatedMlp, swiglu
from unmask.models.linear import AdaptedRows, Linear
from unmask.models.spec import ExpertShape, TensorNames
from unmask.models.tiles import tiled_gate, tiled_grouped_product, tiled_route

_TINY = 1e-20  # keeps the sum of weights off zero, as the reference models do


class Experts:
    """``gate_up`` [E, 2 * I, D] and ``down`` [E, D, I] are the experts, ``shared`` is the one that every row takes.

    ``router`` [E, D] and ``bias`` [E] are float32 whatever the model is: near ties decide which experts run.
    """

    def __init__(
        self,
        shape: ExpertShape,
        router: Tensor,
        bias: Tensor | None,
        gate_up: Tensor,
        down: Tensor,
        shared: GatedMlp | None,
    ) -> None:
        self.shape = shape
        self.router = router.float()
        self.bias = None if bias is None else bias.float()
        self.gate_up = gate_up
        self.down = down
        self.shared = shared
        self._tiled = False

    @classmethod
    def read(cls, weights: TensorReader, shape: ExpertShape, names: TensorNames, hidden: int, layer: int) -> Experts:
        """Take the tensors of ``layer``; ``names.router_bias`` is a whole name, as it is no module's weight."""

        def name(pattern: str) -> str:
            return pattern.format(n=layer, e="{e}")

        def stacked(pattern: str, rows: int, columns: int) -> Tensor:
            return weights.take_stacked(f"{name(pattern)}.weight", shape.experts, (rows, columns))

        inner, shared = shape.intermediate, shape.shared_intermediate
        shared_names = (name(names.shared_gate), name(names.shared_up), name(names.shared_down))
        gates, ups = stacked(names.expert_gate, inner, hidden), stacked(names.expert_up, inner, hidden)
        return cls(
            shape,
            router=weights.take(f"{name(names.router)}.weight", (shape.experts, hidden)),
            bias=None if shape.bias == "none" else weights.take(name(names.router_bias), (shape.experts,)),
            gate_up=torch.cat([gates, ups], dim=1),
            down=stacked(names.expert_down, hidden, inner),
            shared=GatedMlp.read(weights, shared_names, hidden, shared) if shared else None,
        )

    def __call__(self, rows: Tensor, adapted: Sequence[AdaptedRows] = ()) -> Tensor:
        """[R, D] of ``rows`` [R, D]."""
        routed = tiled_route(self.route, rows) if self._tiled else self.route(rows)
        mixed = mixture(rows, *routed, self.gate_up, self.down, swiglu, tiled=self._tiled)
        return mixed if self.shared is None else mixed + self.shared(rows, adapted)

    def route(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The experts of each row, best first, [R, K] int64, and the weights of their outputs, [R, K] float32."""
        logits = F.linear(rows.float(), self.router)
        scores = logits.softmax(dim=-1) if self.shape.score == "softmax" else logits.sigmoid()
        ranks = scores if self.bias is None else scores + self.bias
        chosen = self._within_best_groups(ranks).topk(self.shape.used, dim=-1).indices
        shares = (ranks if self.shape.bias == "weights" else scores).gather(-1, chosen)
        if self.shape.normalized:
            shares = shares / (shares.sum(dim=-1, keepdim=True) + _TINY)
        return chosen, shares * self.shape.scale

    def tile(self) -> None:
        """Compute row by row the same, whatever rows share the step, from now on."""
        self._tiled = True
        if self.shared is not None:
            self.shared.tile()

    def linears(self) -> Iterator[Linear]:
        """Its matrix products, other than the router's and the routed experts'."""
        if self.shared is not None:
            yield from self.shared.linears()

    @property
    def parameters(self) -> int:
        """Number of weights."""
        own = self.router.numel() + self.gate_up.numel() + self.down.numel()
        bias = 0 if self.bias is None else self.bias.numel()
        return own + bias + (0 if self.shared is None else self.shared.parameters)

    def _within_best_groups(self, ranks: Tensor) -> Tensor:
        """``ranks`` [R, E], but minus infinity outside the groups whose two best experts together rank highest."""
        if self.shape.groups_used == self.shape.groups:
            return ranks
        grouped = ranks.view(len(ranks), self.shape.groups, -1)
        best = grouped.topk(2, dim=-1).values.sum(dim=-1).topk(self.shape.groups_used, dim=-1).indices
        left_out = torch.ones(grouped.shape[:-1], dtype=torch.bool, device=ranks.device).scatter_(-1, best, False)
        return grouped.masked_fill(left_out.unsqueeze(-1), -torch.inf).flatten(-2)


def mixture(
    rows: Tensor, chosen: Tensor, shares: Tensor, gate_up: Tensor, down: Tensor, gate: Gate, *, tiled: bool = False
) -> Tensor:
    """What the ``chosen`` experts [R, K] make of ``rows`` [R, D], weighed by ``shares`` [R, K] and summed: [R, D].

    Expert e makes ``down[e] @ gate(gate_up[e] @ row)`` of a row; only experts that some row has chosen are computed.
    ``tiled``: in tiles of rows (``models/tiles.py``).
    """
    product = tiled_grouped_product if tiled else _grouped_product
    used = chosen.shape[1]
    # Rows in order of their expert, so that each expert multiplies one stretch of them.
    experts, order = chosen.flatten().sort(stable=True)
    ends = torch.searchsorted(experts, torch.arange(len(down), device=rows.device), right=True, out_int32=True)
    gate_ups = product(rows[order // used], gate_up, ends)
    products = product(tiled_gate(gate, gate_ups) if tiled else gate(gate_ups), down, ends)
    # Back in order of rows: what a row gets is summed best expert first, whoever shares the step.
    outputs = torch.empty_like(products).index_copy_(0, order, products).view(*chosen.shape, -1)
    return (outputs * shares.unsqueeze(-1)).sum(dim=1).to(rows.dtype)


def _grouped_product(rows: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """``rows[ends[e - 1] : ends[e]] @ weights[e].T`` for every e: [R, O] of [R, I], [E, O, I] and [E] int32.

    torch from 2.10 on does this in one call, without asking a GPU where the groups end, if all strides are aligned.
    """
    aligned = all(size * weights.element_size() % 16 == 0 for size in weights.shape[1:])
    if aligned and hasattr(F, "grouped_mm"):
        return F.grouped_mm(rows, weights.transpose(-2, -1), offs=ends)
    products = rows.new_empty(len(rows), weights.shape[1])
    start = 0
    for weight, end in zip(weights, ends.tolist(), strict=True):
        if end > start:
            products[start:end] = rows[start:end] @ weight.T
        start = end
    return products

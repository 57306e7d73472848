"""The Llama-like transformer that LLaDA, Dream and their kin share: RMSNorm, rotary attention, SwiGLU.

Shape letters as in ``models/base.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import WeightReader
from unmask.models.base import KeyValueCache, ModelSpec, StepContext, TensorNames, TransformerShape


@dataclass(slots=True)
class LayerWeights:
    """One layer; ``qkv`` stacks query, key and value rows, ``gate_up`` the two halves of SwiGLU."""

    attention_norm: Tensor
    qkv: Tensor
    qkv_bias: Tensor | None
    output: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor


class Transformer:
    """A loaded model: ``forward`` gives hidden rows, ``head`` the logits of those rows that need them."""

    def __init__(self, spec: ModelSpec, weights: WeightReader) -> None:
        shape, names = spec.shape, spec.names
        self.spec = spec
        self.embedding = weights.take(f"{names.embedding}.weight", (shape.vocab, shape.hidden))
        self.layers = [_read_layer(weights, shape, names, n) for n in range(shape.layers)]
        self.final_norm = weights.take(f"{names.final_norm}.weight", (shape.hidden,))
        self.output_head = (
            self.embedding if shape.tied else weights.take(f"{names.head}.weight", (shape.vocab, shape.hidden))
        )
        weights.check_all_taken(lambda name: name.endswith(".inv_freq") or (shape.tied and names.head in name))
        exponents = torch.arange(0, shape.head_size, 2, dtype=torch.float32) / shape.head_size
        self._frequencies = (1.0 / shape.rope_theta**exponents).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' type."""
        return self.embedding.dtype

    @property
    def parameters(self) -> int:
        """Number of weights."""
        per_layer = sum(
            tensor.numel()
            for layer in self.layers
            for tensor in (layer.attention_norm, layer.qkv, layer.output, layer.mlp_norm, layer.gate_up, layer.down)
        )
        head = 0 if self.spec.shape.tied else self.output_head.numel()
        return per_layer + self.embedding.numel() + self.final_norm.numel() + head

    def new_cache(self, slots: int) -> KeyValueCache:
        """A cache of ``slots`` positions for this model."""
        shape = self.spec.shape
        return KeyValueCache(shape.layers, slots, shape.kv_heads, shape.head_size, self.dtype, self.device)

    def forward(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """Hidden rows [R, D] after the final norm; writes every row's keys and values into ``cache``."""
        eps = self.spec.shape.norm_eps
        hidden = F.embedding(step.token_ids, self.embedding)
        # Angles are float32 whatever the weights are, as in the references; [R, 1, E / 2].
        angles = torch.outer(step.positions.float(), self._frequencies).unsqueeze(1)
        cos, sin = angles.cos(), angles.sin()
        for layer, slots in zip(self.layers, cache.layers, strict=True):
            normed = F.rms_norm(hidden, hidden.shape[-1:], layer.attention_norm, eps)
            hidden = hidden + F.linear(self._attend(layer, normed, cos, sin, step, slots), layer.output)
            normed = F.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, eps)
            gate, up = F.linear(normed, layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer.down)
        return F.rms_norm(hidden, hidden.shape[-1:], self.final_norm, eps)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] in float32 of ``hidden`` [M, D]."""
        return F.linear(hidden, self.output_head).float()

    def _attend(
        self, layer: LayerWeights, normed: Tensor, cos: Tensor, sin: Tensor, step: StepContext, slots: Tensor
    ) -> Tensor:
        """Attention output [R, H * E]: rotate, write keys and values, then read what each group sees."""
        shape = self.spec.shape
        heads, kv_heads, size = shape.heads, shape.kv_heads, shape.head_size
        qkv = F.linear(normed, layer.qkv, layer.qkv_bias).view(-1, heads + 2 * kv_heads, size)
        _rotate(qkv[:, : heads + kv_heads], cos, sin)
        query, key_value = qkv[:, :heads], qkv[:, heads:]
        slots.index_copy_(0, step.write_slots, key_value)
        outputs = []
        for group in step.groups:
            if isinstance(group.keys, slice):
                seen = slots[group.keys].unsqueeze(0)
            else:
                seen = slots.index_select(0, group.keys.flatten()).view(*group.keys.shape, 2 * kv_heads, size)
            seen = seen.transpose(1, 2)
            output = F.scaled_dot_product_attention(
                query[group.rows].view(len(seen), -1, heads, size).transpose(1, 2),
                seen[:, :kv_heads],
                seen[:, kv_heads:],
                attn_mask=group.mask,
                enable_gqa=heads != kv_heads,
            )
            outputs.append(output.transpose(1, 2).reshape(-1, heads * size))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> None:
    """Rotary embedding in place on [R, heads, E], halves rotated against each other; ``cos``, ``sin`` [R, 1, E / 2]."""
    first, second = heads.chunk(2, dim=-1)
    rotated = first * cos - second * sin
    second.copy_(second * cos + first * sin)
    first.copy_(rotated)


def _read_layer(weights: WeightReader, shape: TransformerShape, names: TensorNames, n: int) -> LayerWeights:
    def matrix(name: str, rows: int, columns: int) -> Tensor:
        return weights.take(f"{name.format(n=n)}.weight", (rows, columns))

    def norm(name: str) -> Tensor:
        return weights.take(f"{name.format(n=n)}.weight", (shape.hidden,))

    projections = [
        (names.query, shape.heads * shape.head_size),
        (names.key, shape.kv_heads * shape.head_size),
        (names.value, shape.kv_heads * shape.head_size),
    ]
    bias = [weights.take(f"{name.format(n=n)}.bias", (rows,)) for name, rows in projections if shape.qkv_bias]
    return LayerWeights(
        attention_norm=norm(names.attention_norm),
        qkv=torch.cat([matrix(name, rows, shape.hidden) for name, rows in projections]),
        qkv_bias=torch.cat(bias) if bias else None,
        output=matrix(names.output, shape.hidden, shape.heads * shape.head_size),
        mlp_norm=norm(names.mlp_norm),
        gate_up=torch.cat([matrix(name, shape.intermediate, shape.hidden) for name in (names.gate, names.up)]),
        down=matrix(names.down, shape.hidden, shape.intermediate),
    )

"""The Llama-like transformer that all families but Gemma's share: RMSNorm, rotary attention, SwiGLU or experts.

Shape letters as in ``models/base.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import TensorReader
from unmask.models.attention import attend, rotate, rotation
from unmask.models.base import KeyValueCache, Model, StepContext
from unmask.models.experts import Experts
from unmask.models.feed_forward import GatedMlp
from unmask.models.linear import Linear
from unmask.models.spec import ModelSpec, TensorNames, TransformerShape


@dataclass(slots=True)
class Layer:
    """One layer. ``qkv`` gives all query, key and value heads, in that order.

    ``head_norm`` [H + G, E] weighs each query and key head after its norm; ``None`` in models that do not norm them.
    """

    attention_norm: Tensor
    qkv: Linear
    head_norm: Tensor | None
    output: Linear
    mlp_norm: Tensor
    mlp: GatedMlp | Experts

    def linears(self) -> Iterator[Linear]:
        """Its matrix products, other than a router's and routed experts'."""
        yield self.qkv
        yield self.output
        yield from self.mlp.linears()

    @property
    def parameters(self) -> int:
        """Number of weights."""
        norms = self.attention_norm.numel() + self.mlp_norm.numel()
        if self.head_norm is not None:
            norms += 2 * self.head_norm.shape[-1]
        return norms + self.qkv.parameters + self.output.parameters + self.mlp.parameters


class Transformer(Model):
    """The Llama-like transformer, loaded."""

    def __init__(self, spec: ModelSpec, weights: TensorReader) -> None:
        """``spec`` must have a ``TransformerShape``, and names."""
        shape, names = spec.shape, spec.names
        assert isinstance(shape, TransformerShape)
        assert names is not None
        super().__init__(spec)
        self.shape = shape
        self.embedding = weights.take(f"{names.embedding}.weight", (shape.vocab, shape.hidden))
        self.layers = [_read_layer(weights, shape, names, n) for n in range(shape.layers)]
        self.final_norm = weights.take(f"{names.final_norm}.weight", (shape.hidden,))
        head = [(names.head, shape.vocab)]
        self.output_head = Linear(head, self.embedding) if shape.tied else Linear.read(weights, head, shape.hidden)
        copied = f"{names.head}.weight" if shape.tied else None
        weights.check_all_taken(lambda name: name.endswith(".inv_freq") or name == copied)
        exponents = torch.arange(0, shape.rotary_size, 2, dtype=torch.float32) / shape.rotary_size
        self._frequencies = (1.0 / shape.rope_theta**exponents).to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of activations, keys and values."""
        return self.embedding.dtype

    @property
    def parameters(self) -> int:
        """Number of weights."""
        head = 0 if self.shape.tied else self.output_head.parameters
        layers = sum(layer.parameters for layer in self.layers)
        return self.embedding.numel() + layers + self.final_norm.numel() + head

    def linears(self) -> Iterator[Linear]:
        """The matrix products inside the layers, which adapters may change."""
        for layer in self.layers:
            yield from layer.linears()

    def tile(self) -> None:
        """Compute row by row the same, whatever rows share the step, from now on."""
        super().tile()
        self.output_head.tile()
        for layer in self.layers:
            layer.mlp.tile()

    def new_cache(self, slots: int) -> KeyValueCache:
        """A cache of ``slots`` positions for this model."""
        size = (slots, 2 * self.shape.kv_heads, self.shape.head_size)
        return KeyValueCache([torch.zeros(size, dtype=self.dtype, device=self.device) for _ in self.layers])

    def forward(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """Hidden rows [R, D] after the final norm; writes every row's keys and values into ``cache``."""
        eps = self.shape.norm_eps
        hidden = F.embedding(step.token_ids, self.embedding)
        cos, sin = rotation(step.positions, self._frequencies)
        for layer, slots in zip(self.layers, cache.layers, strict=True):
            normed = F.rms_norm(hidden, hidden.shape[-1:], layer.attention_norm, eps)
            hidden = hidden + layer.output(self._attend(layer, normed, cos, sin, step, slots), step.adapted)
            normed = F.rms_norm(hidden, hidden.shape[-1:], layer.mlp_norm, eps)
            hidden = hidden + layer.mlp(normed, step.adapted)
        return F.rms_norm(hidden, hidden.shape[-1:], self.final_norm, eps)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] in float32 of ``hidden`` [M, D]."""
        return self.output_head(hidden).float()

    def _attend(
        self, layer: Layer, normed: Tensor, cos: Tensor, sin: Tensor, step: StepContext, slots: Tensor
    ) -> Tensor:
        """Attention output [R, H * E]: rotate, write keys and values, then read what each group sees."""
        shape = self.shape
        heads, kv_heads, size = shape.heads, shape.kv_heads, shape.head_size
        qkv = layer.qkv(normed, step.adapted).view(-1, heads + 2 * kv_heads, size)
        query_key = qkv[:, : heads + kv_heads]
        if layer.head_norm is not None:
            query_key.copy_(F.rms_norm(query_key, (size,), eps=shape.norm_eps) * layer.head_norm)
        rotate(query_key[..., : shape.rotary_size], cos, sin)
        slots.index_copy_(0, step.write_slots, qkv[:, heads:])
        return attend(qkv[:, :heads], slots, step.groups)


def _read_layer(weights: TensorReader, shape: TransformerShape, names: TensorNames, n: int) -> Layer:
    hidden, heads, kv_heads, size = shape.hidden, shape.heads, shape.kv_heads, shape.head_size

    def name(pattern: str) -> str:
        return pattern.format(n=n)

    def norm(pattern: str, width: int) -> Tensor:
        return weights.take(f"{name(pattern)}.weight", (width,))

    sizes = {names.query: heads * size, names.key: kv_heads * size, names.value: kv_heads * size}
    if names.qkv:
        sizes = {names.qkv: (heads + 2 * kv_heads) * size}
    head_norm = None
    if shape.qk_norm:
        query, key = norm(names.query_norm, size), norm(names.key_norm, size)
        head_norm = torch.cat([query.expand(heads, size), key.expand(kv_heads, size)])
    mlp: GatedMlp | Experts
    if shape.experts is not None and n in shape.expert_layers:
        mlp = Experts.read(weights, shape.experts, names, hidden, n)
    else:
        mlp = GatedMlp.read(weights, (name(names.gate), name(names.up), name(names.down)), hidden, shape.intermediate)
    return Layer(
        attention_norm=norm(names.attention_norm, hidden),
        qkv=Linear.read(weights, [(name(part), rows) for part, rows in sizes.items()], hidden, bias=shape.qkv_bias),
        head_norm=head_norm,
        output=Linear.read(weights, [(name(names.output), hidden)], heads * size),
        mlp_norm=norm(names.mlp_norm, hidden),
        mlp=mlp,
    )

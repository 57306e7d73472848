"""DiffusionGemma: one set of layers that encodes text causally and denoises a canvas beside it.

A forward takes both kinds of rows at once. They differ in how they are embedded (a canvas row is told what was last
predicted for it), in a scalar per layer, and in what they may see, which the step's attention groups say.

Reference: transformers 5.24, google/diffusiongemma-26B-A4B-it. Shape letters as in ``models/base.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from unmask.checkpoints.weights import TensorReader
from unmask.models.attention import attend, rotate, rotation
from unmask.models.base import KeyValueCache, SelfConditionedModel, StepContext
from unmask.models.experts import mixture
from unmask.models.feed_forward import GatedMlp, geglu
from unmask.models.gemma_spec import GemmaShape, LayerKind
from unmask.models.linear import Linear
from unmask.models.spec import ModelSpec
from unmask.models.tiles import tiled_product, tiled_route

_DECODER = "model.decoder"
_ENCODER = "model.encoder.language_model"
# The reference ties the encoder's weights and the head to the decoder's; text needs nothing of the vision tower.
UNREAD = ("model.encoder.", "lm_head.")


@dataclass(slots=True)
class GemmaLayer:
    """One layer. ``qkv`` lacks the value part where values are the keys; ``experts_*`` stack all experts' matrices.

    ``router`` and ``expert_scale`` are float32 whatever the model is: near ties decide which experts run.
    """

    kind: LayerKind
    attention_norm: Tensor
    qkv: Linear
    query_norm: Tensor
    key_norm: Tensor
    output: Linear
    attention_post_norm: Tensor
    mlp_norm: Tensor
    mlp: GatedMlp
    mlp_post_norm: Tensor
    router: Tensor
    router_scale: Tensor
    expert_scale: Tensor
    experts_norm: Tensor
    experts_gate_up: Tensor
    experts_down: Tensor
    experts_post_norm: Tensor
    post_norm: Tensor
    encoder_scalar: Tensor
    decoder_scalar: Tensor


class DiffusionGemma(SelfConditionedModel):
    """A loaded model; see ``models.base.Model``."""

    def __init__(self, spec: ModelSpec, weights: TensorReader) -> None:
        assert isinstance(spec.shape, GemmaShape)
        super().__init__(spec)
        self.shape = shape = spec.shape
        self.embedding = weights.take(f"{_DECODER}.embed_tokens.weight", (shape.vocab, shape.hidden))
        self.layers = [_read_layer(weights, shape, n) for n in range(len(shape.layer_kinds))]
        self.conditioning_norm = weights.take(f"{_DECODER}.self_conditioning.pre_norm.weight", (shape.hidden,))
        self.conditioning = _read_mlp(weights, shape, f"{_DECODER}.self_conditioning")
        self.final_norm = weights.take(f"{_DECODER}.norm.weight", (shape.hidden,))
        weights.check_all_taken(lambda name: name.startswith(UNREAD) or name.endswith(".inv_freq"))
        # Rounded to the weights' type, as it was in training.
        self._embedding_scale = torch.tensor(shape.hidden**0.5, dtype=self.dtype, device=self.device)
        self._product: Callable[[Tensor, Tensor], Tensor] = F.linear
        self._frequencies = {kind: _frequencies(kind).to(self.device) for kind in set(shape.layer_kinds)}

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
        held = [getattr(layer, field.name) for layer in self.layers for field in fields(layer)]
        tensors = [self.embedding, self.conditioning_norm, self.final_norm, *held]
        return sum(linear.parameters for linear in self.linears()) + sum(
            tensor.numel() for tensor in tensors if isinstance(tensor, Tensor)
        )

    def linears(self) -> Iterator[Linear]:
        """All matrix products but the routers', the experts' and the head's."""
        for layer in self.layers:
            yield from (layer.qkv, layer.output, *layer.mlp.linears())
        yield from self.conditioning.linears()

    def tile(self) -> None:
        """Compute row by row the same, whatever rows share the step, from now on."""
        super().tile()
        self._product = tiled_product
        for mlp in (self.conditioning, *(layer.mlp for layer in self.layers)):
            mlp.tile()

    def new_cache(self, slots: int) -> KeyValueCache:
        """A cache of ``slots`` positions for this model."""

        def zeros(*size: int) -> Tensor:
            return torch.zeros(slots, *size, dtype=self.dtype, device=self.device)

        layers = [zeros(2 * kind.kv_heads, kind.head_size) for kind in self.shape.layer_kinds]
        return KeyValueCache(layers, predicted=zeros(self.shape.hidden))

    def forward(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """Hidden rows [R, D] after the final norm; writes every row's keys and values into ``cache``."""
        hidden = self._embed(step, cache)
        turns = {kind: rotation(step.positions, frequencies) for kind, frequencies in self._frequencies.items()}
        for layer, slots in zip(self.layers, cache.layers, strict=True):
            hidden = self._layer(layer, hidden, turns[layer.kind], step, slots)
        return self._norm(hidden, self.final_norm)

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [M, V] in float32 of ``hidden`` [M, D]."""
        cap = self.shape.softcap
        return self._product(hidden, self.embedding).float().div_(cap).tanh_().mul_(cap)

    def remember(self, cache: KeyValueCache, slots: Tensor, logits: Tensor) -> None:
        """Keep the mean embedding under ``logits`` [M, V] (after any temperature) for ``slots`` [M]."""
        assert cache.predicted is not None
        probabilities = logits.softmax(dim=-1, dtype=torch.float32).to(self.dtype)
        predicted = self._product(probabilities, self.embedding.T) * self._embedding_scale
        cache.predicted.index_copy_(0, slots, predicted)

    def _embed(self, step: StepContext, cache: KeyValueCache) -> Tensor:
        """Embedded rows [R, D]; those of a canvas with what was predicted for them, which is zero if nothing was."""
        assert step.canvas is not None
        assert step.conditioned is not None
        assert cache.predicted is not None
        embedded = F.embedding(step.token_ids, self.embedding) * self._embedding_scale
        # Chosen, not multiplied by the mark: slots that nothing was predicted for may hold anything, even NaN.
        predicted = torch.where(step.conditioned.unsqueeze(1), cache.predicted[step.write_slots], 0.0)
        # Every row goes through this MLP, for nothing if it is no canvas row: that costs less than picking rows out.
        signal = self.conditioning(self._norm(predicted, self.conditioning_norm), step.adapted)
        return torch.where(step.canvas.unsqueeze(1), self._norm(embedded + signal), embedded)

    def _layer(
        self, layer: GemmaLayer, hidden: Tensor, turn: tuple[Tensor, Tensor], step: StepContext, slots: Tensor
    ) -> Tensor:
        """The rows after ``layer``: attention, then a dense MLP and the experts side by side."""
        assert step.canvas is not None
        attended = self._attend(layer, self._norm(hidden, layer.attention_norm), turn, step, slots)
        hidden = hidden + self._norm(layer.output(attended, step.adapted), layer.attention_post_norm)
        dense = self._norm(layer.mlp(self._norm(hidden, layer.mlp_norm), step.adapted), layer.mlp_post_norm)
        route = partial(self._route, layer)
        chosen, shares = tiled_route(route, hidden) if self.tiled else route(hidden)
        rows = self._norm(hidden, layer.experts_norm)
        experts = mixture(rows, chosen, shares, layer.experts_gate_up, layer.experts_down, geglu, tiled=self.tiled)
        hidden = hidden + self._norm(dense + self._norm(experts, layer.experts_post_norm), layer.post_norm)
        return hidden * torch.where(step.canvas.unsqueeze(1), layer.decoder_scalar, layer.encoder_scalar)

    def _attend(
        self, layer: GemmaLayer, normed: Tensor, turn: tuple[Tensor, Tensor], step: StepContext, slots: Tensor
    ) -> Tensor:
        """Attention output [R, H * E]: rotate, write keys and values, then read what each group sees."""
        heads, kv_heads, size = self.shape.heads, layer.kind.kv_heads, layer.kind.head_size
        qkv = layer.qkv(normed, step.adapted).view(len(normed), -1, size)
        query = self._norm(qkv[:, :heads], layer.query_norm)
        key = self._norm(qkv[:, heads : heads + kv_heads], layer.key_norm)
        # The last heads are the values; without a part of their own, the keys before their norm.
        value = self._norm(qkv[:, -kv_heads:])
        rotate(query, *turn)
        rotate(key, *turn)
        slots.index_copy_(0, step.write_slots, torch.cat((key, value), dim=1))
        return attend(query, slots, step.groups, sliding=layer.kind.sliding, scale=1.0)

    def _route(self, layer: GemmaLayer, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The experts of each row [R, used] int64, and what each contributes [R, used] float32."""
        routed = self._norm(hidden) * layer.router_scale * self.shape.hidden**-0.5
        scores = F.linear(routed.float(), layer.router).softmax(dim=-1)
        shares, chosen = scores.topk(self.shape.experts.used, dim=-1)
        return chosen, shares / shares.sum(dim=-1, keepdim=True) * layer.expert_scale[chosen]

    def _norm(self, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        """RMS norm over the last dimension, computed in float32 whatever the type."""
        return F.rms_norm(rows, rows.shape[-1:], weight, self.shape.norm_eps)


def _frequencies(kind: LayerKind) -> Tensor:
    """Radians per position of each pair [E / 2] float32: zero for those that do not rotate."""
    pairs = torch.arange(kind.head_size // 2, dtype=torch.float32)
    frequencies = 1.0 / kind.rope_theta ** (2 * pairs / kind.head_size)
    return torch.where(pairs < kind.rotating_pairs, frequencies, 0.0)


def _read_layer(weights: TensorReader, shape: GemmaShape, n: int) -> GemmaLayer:
    kind, name = shape.layer_kinds[n], f"{_DECODER}.layers.{n}"
    heads, kv_heads = shape.heads * kind.head_size, kind.kv_heads * kind.head_size
    parts = [("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)][: 3 if kind.sliding else 2]
    experts, inner = shape.experts.experts, shape.experts.intermediate

    def norm(which: str) -> Tensor:
        return weights.take(f"{name}.{which}.weight", (shape.hidden,))

    return GemmaLayer(
        kind=kind,
        attention_norm=norm("input_layernorm"),
        qkv=Linear.read(weights, [(f"{name}.self_attn.{part}", size) for part, size in parts], shape.hidden),
        query_norm=weights.take(f"{name}.self_attn.q_norm.weight", (kind.head_size,)),
        key_norm=weights.take(f"{name}.self_attn.k_norm.weight", (kind.head_size,)),
        output=Linear.read(weights, [(f"{name}.self_attn.o_proj", shape.hidden)], heads),
        attention_post_norm=norm("post_attention_layernorm"),
        mlp_norm=norm("pre_feedforward_layernorm"),
        mlp=_read_mlp(weights, shape, f"{name}.mlp"),
        mlp_post_norm=norm("post_feedforward_layernorm_1"),
        router=weights.take(f"{name}.router.proj.weight", (experts, shape.hidden)).float(),
        router_scale=weights.take(f"{name}.router.scale", (shape.hidden,)),
        expert_scale=weights.take(f"{name}.router.per_expert_scale", (experts,)).float(),
        experts_norm=norm("pre_feedforward_layernorm_2"),
        experts_gate_up=weights.take(f"{name}.experts.gate_up_proj", (experts, 2 * inner, shape.hidden)),
        experts_down=weights.take(f"{name}.experts.down_proj", (experts, shape.hidden, inner)),
        experts_post_norm=norm("post_feedforward_layernorm_2"),
        post_norm=norm("post_feedforward_layernorm"),
        encoder_scalar=weights.take(f"{_ENCODER}.layers.{n}.layer_scalar", (1,)),
        decoder_scalar=weights.take(f"{name}.layer_scalar", (1,)),
    )


def _read_mlp(weights: TensorReader, shape: GemmaShape, name: str) -> GatedMlp:
    names = (f"{name}.gate_proj", f"{name}.up_proj", f"{name}.down_proj")
    return GatedMlp.read(weights, names, shape.hidden, shape.intermediate, geglu)

"""The sizes of DiffusionGemma, from its ``config.json``. No tensors here.

Reference: transformers 5.24, google/diffusiongemma-26B-A4B-it. Absent keys take that model's values, but for sizes that
the reference class itself presumes otherwise: those must be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.gemma_generation import renoise_defaults
from unmask.models.samplers import DIFFUSION_GEMMA
from unmask.models.spec import ExpertShape

_FULL, _SLIDING = "full_attention", "sliding_attention"
_SLIDING_PATTERN = 6

# The knobs of this class, and of its relatives, that would change the forward pass, at the one value we implement.
_ASSUMED: dict[str, Any] = {
    "hidden_activation": "gelu_pytorch_tanh",
    "attention_bias": False,
    "use_bidirectional_attention": "vision",  # images only: text is encoded causally
    "tie_word_embeddings": True,
    "attn_logit_softcapping": None,
    "rope_scaling": None,
    "attention_k_eq_v": True,
    "enable_moe_block": True,
    "use_double_wide_mlp": False,
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0,
}
_ASSUMED_ROPE: dict[str, dict[str, Any]] = {
    _SLIDING: {"rope_type": "default", "factor": 1.0, "partial_rotary_factor": 1.0},
    _FULL: {"rope_type": "proportional", "factor": 1.0},
}


@dataclass(frozen=True, slots=True)
class LayerKind:
    """How one layer attends: over a sliding window or all keys, in ``kv_heads`` heads of ``head_size`` E.

    Dimension i of a head rotates against dimension i + E / 2, for i below ``rotating_pairs``.
    """

    sliding: bool
    kv_heads: int
    head_size: int
    rope_theta: float
    rotating_pairs: int


@dataclass(frozen=True, slots=True)
class GemmaShape:
    """Sizes of DiffusionGemma's text model; ``layer_kinds`` has one entry a layer.

    ``intermediate``: size of the dense MLP beside the experts, and of self-conditioning's. ``softcap``: what no logit's
    size exceeds.
    """

    vocab: int
    hidden: int
    context_length: int
    canvas_length: int
    heads: int
    layer_kinds: tuple[LayerKind, ...]
    sliding_window: int
    intermediate: int
    experts: ExpertShape
    norm_eps: float
    softcap: float

    @property
    def cache_width(self) -> int:
        """Numbers that one position keeps in the cache: keys and values of all layers, and its last prediction."""
        return self.hidden + sum(2 * kind.kv_heads * kind.head_size for kind in self.layer_kinds)

    def faults(self) -> list[str]:
        """In what the sizes contradict each other."""
        faults = self.experts.faults()
        for kind in self.layer_kinds:
            if self.heads % kind.kv_heads:
                faults.append(f"{self.heads} heads do not share {kind.kv_heads} key/value heads evenly")
            if kind.head_size % 2:
                faults.append(f"the head size {kind.head_size} is odd")
        if self.canvas_length >= self.context_length:
            faults.append(f"a canvas of {self.canvas_length} leaves no room in a context of {self.context_length}")
        return faults


def shape(config: Config) -> GemmaShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    config.refuse_other_than({"tie_word_embeddings": True})
    text = config.object("text_config")
    text.refuse_other_than(_ASSUMED)
    if text.values.get("final_logit_softcapping", 0) is None:
        raise text.fault("'final_logit_softcapping' is null", hint="Unmask always caps logits.")
    return GemmaShape(
        vocab=text.integer("vocab_size"),
        hidden=text.integer("hidden_size"),
        context_length=text.integer("max_position_embeddings", 262144),
        canvas_length=config.integer("canvas_length", 256),
        heads=text.integer("num_attention_heads"),
        layer_kinds=_layer_kinds(text),
        sliding_window=text.integer("sliding_window"),
        intermediate=text.integer("intermediate_size"),
        experts=ExpertShape(
            experts=text.integer("num_experts"),
            used=text.integer("top_k_experts"),
            intermediate=text.integer("moe_intermediate_size"),
            normalized=True,
        ),
        norm_eps=text.number("rms_norm_eps", 1e-6),
        softcap=text.number("final_logit_softcapping", 30.0),
    )


def _layer_kinds(text: Config) -> tuple[LayerKind, ...]:
    count = text.layer_count("num_hidden_layers")
    types = text.get("layer_types")
    if types is None:
        pattern = text.integer("sliding_window_pattern", _SLIDING_PATTERN)
        types = [_SLIDING if (n + 1) % pattern else _FULL for n in range(count)]
    if not isinstance(types, list) or len(types) != count or any(kind not in (_FULL, _SLIDING) for kind in types):
        raise text.fault(f"'layer_types' must name {_FULL!r} or {_SLIDING!r} for each of {count} layers")
    # The reference gives the last layer full attention whatever its type is said to be.
    sliding = [kind == _SLIDING for kind in types[:-1]] + [False]
    return tuple(_layer_kind(text, n, slides) for n, slides in enumerate(sliding))


def _layer_kind(text: Config, layer: int, sliding: bool) -> LayerKind:
    kv_heads, head_size = _heads(text, layer, sliding)
    theta, rotating = _rope(text, sliding)
    return LayerKind(sliding, kv_heads, head_size, theta, rotating_pairs=int(rotating * head_size // 2))


def _heads(text: Config, layer: int, sliding: bool) -> tuple[int, int]:
    """Key/value heads and head size of ``layer``, in the spelling of transformers from 5.15 on or in the one before."""
    kv_heads, head_size = text.integer("num_key_value_heads"), text.integer("head_dim", 256)
    if text.get("per_layer_config") is not None:
        overrides = text.object("per_layer_config")
        if str(layer) not in overrides.values:
            return kv_heads, head_size
        own = overrides.object(str(layer))
        if not set(own.values) <= {"head_dim", "num_key_value_heads"}:
            raise overrides.fault(f"layer {layer} sets {sorted(own.values)}")
        return own.integer("num_key_value_heads", kv_heads), own.integer("head_dim", head_size)
    if sliding:
        return kv_heads, head_size
    return text.integer("num_global_key_value_heads", kv_heads), text.integer("global_head_dim", 512)


def _rope(text: Config, sliding: bool) -> tuple[float, float]:
    """Theta, and the share of a head that rotates, of all layers of a kind; per kind, or in two keys as of old."""
    kind = _SLIDING if sliding else _FULL
    ropes = None if text.get("rope_parameters") is None else text.object("rope_parameters")
    if ropes is None or ropes.get(kind) is None:
        if sliding:
            return text.number("rope_local_base_freq", 1e4), 1.0
        return text.number("rope_theta", 1e6), 0.25
    rope = ropes.object(kind)
    rope.refuse_other_than(_ASSUMED_ROPE[kind])
    share = rope.number("partial_rotary_factor", 1.0)
    if share > 1.0:
        raise rope.fault(f"'partial_rotary_factor' is {share:g}, above 1")
    return rope.number("rope_theta", 1e4 if sliding else 1e6), share


FAMILY = Family(
    name="diffusion_gemma",
    architectures=("DiffusionGemmaForBlockDiffusion",),
    shape=shape,
    tensors=None,
    sampler=DIFFUSION_GEMMA,
    defaults_of=renoise_defaults,
)

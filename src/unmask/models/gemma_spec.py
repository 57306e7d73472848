"""The sizes of DiffusionGemma, from its ``config.json``. No tensors here.

Reference: transformers 5.24, google/diffusiongemma-26B-A4B-it. Absent keys take that model's values, but for sizes that
the reference class itself presumes otherwise: those must be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from unmask.errors import InvalidCheckpointError
from unmask.models.config import integer, number, refuse_other_values
from unmask.models.spec import ExpertShape

ARCHITECTURE = "DiffusionGemmaForBlockDiffusion"

_TEXT = "text_config of config.json"
_FULL, _SLIDING = "full_attention", "sliding_attention"
_SLIDING_PATTERN = 6
# Far above any real model, far below what a list of layers must not become.
_MOST_LAYERS = 1024
_HINT = "Is config.json the one that came with the weights?"

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

_integer = partial(integer, file=_TEXT)
_number = partial(number, file=_TEXT)


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

    ``window``: a row of a sliding layer sees itself and the ``window`` - 1 positions before it. ``intermediate``: size
    of the dense MLP beside the experts, and of self-conditioning's. ``softcap``: what no logit's size exceeds.
    """

    vocab: int
    hidden: int
    context_length: int
    canvas_length: int
    heads: int
    layer_kinds: tuple[LayerKind, ...]
    window: int
    intermediate: int
    experts: ExpertShape
    norm_eps: float
    softcap: float

    @property
    def cache_width(self) -> int:
        """Numbers that one position keeps in the cache: keys and values of all layers, and its last prediction."""
        return self.hidden + sum(2 * kind.kv_heads * kind.head_size for kind in self.layer_kinds)


def shape(config: dict[str, Any]) -> GemmaShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    refuse_other_values(config, {"tie_word_embeddings": True})
    text = _object(config, "text_config", "config.json")
    refuse_other_values(text, _ASSUMED, file=_TEXT)
    if text.get("final_logit_softcapping", 0) is None:
        raise InvalidCheckpointError(f"{_TEXT}: 'final_logit_softcapping' is null.", hint="Unmask always caps logits.")
    sizes = GemmaShape(
        vocab=_integer(text, "vocab_size"),
        hidden=_integer(text, "hidden_size"),
        context_length=_integer(text, "max_position_embeddings", 262144),
        canvas_length=integer(config, "canvas_length", 256),
        heads=_integer(text, "num_attention_heads"),
        layer_kinds=_layer_kinds(text),
        window=_integer(text, "sliding_window"),
        intermediate=_integer(text, "intermediate_size"),
        experts=ExpertShape(
            experts=_integer(text, "num_experts"),
            used=_integer(text, "top_k_experts"),
            intermediate=_integer(text, "moe_intermediate_size"),
            normalized=True,
        ),
        norm_eps=_number(text, "rms_norm_eps", 1e-6),
        softcap=_number(text, "final_logit_softcapping", 30.0),
    )
    _check(sizes)
    return sizes


def _check(sizes: GemmaShape) -> None:
    """Raise ``InvalidCheckpointError`` for sizes that contradict each other."""
    faults = [
        f"{sizes.heads} attention heads do not share {kind.kv_heads} key/value heads evenly"
        for kind in sizes.layer_kinds
        if sizes.heads % kind.kv_heads
    ]
    faults += [f"the head size {kind.head_size} is odd" for kind in sizes.layer_kinds if kind.head_size % 2]
    if sizes.experts.used > sizes.experts.experts:
        faults.append(f"{sizes.experts.used} of {sizes.experts.experts} experts cannot be chosen")
    if sizes.canvas_length >= sizes.context_length:
        faults.append(f"a canvas of {sizes.canvas_length} leaves no room in a context of {sizes.context_length}")
    if faults:
        raise InvalidCheckpointError(f"config.json: {faults[0]}.", hint=_HINT)


def _layer_kinds(text: dict[str, Any]) -> tuple[LayerKind, ...]:
    count = _integer(text, "num_hidden_layers")
    if count > _MOST_LAYERS:
        raise InvalidCheckpointError(f"{_TEXT}: 'num_hidden_layers' is {count}, above {_MOST_LAYERS}.", hint=_HINT)
    types = text.get("layer_types")
    if types is None:
        pattern = _integer(text, "sliding_window_pattern", _SLIDING_PATTERN)
        types = [_SLIDING if (n + 1) % pattern else _FULL for n in range(count)]
    if not isinstance(types, list) or len(types) != count or any(kind not in (_FULL, _SLIDING) for kind in types):
        raise InvalidCheckpointError(
            f"{_TEXT}: 'layer_types' must name {_FULL!r} or {_SLIDING!r} for each of {count} layers.", hint=_HINT
        )
    # The reference gives the last layer full attention whatever its type is said to be.
    sliding = [kind == _SLIDING for kind in types[:-1]] + [False]
    return tuple(_layer_kind(text, n, slides) for n, slides in enumerate(sliding))


def _layer_kind(text: dict[str, Any], layer: int, sliding: bool) -> LayerKind:
    kv_heads, head_size = _heads(text, layer, sliding)
    theta, rotating = _rope(text, sliding)
    return LayerKind(sliding, kv_heads, head_size, theta, rotating_pairs=int(rotating * head_size // 2))


def _heads(text: dict[str, Any], layer: int, sliding: bool) -> tuple[int, int]:
    """Key/value heads and head size of ``layer``, in the spelling of transformers from 5.15 on or in the one before."""
    kv_heads, head_size = _integer(text, "num_key_value_heads"), _integer(text, "head_dim", 256)
    if text.get("per_layer_config") is not None:
        overrides = _object(text, "per_layer_config", _TEXT)
        own = _object(overrides, str(layer), "per_layer_config") if str(layer) in overrides else {}
        if not set(own) <= {"head_dim", "num_key_value_heads"}:
            raise InvalidCheckpointError(f"per_layer_config: layer {layer} sets {sorted(own)}.", hint=_HINT)
        return integer(own, "num_key_value_heads", kv_heads), integer(own, "head_dim", head_size)
    if sliding:
        return kv_heads, head_size
    return _integer(text, "num_global_key_value_heads", kv_heads), _integer(text, "global_head_dim", 512)


def _rope(text: dict[str, Any], sliding: bool) -> tuple[float, float]:
    """Theta, and the share of a head that rotates, of all layers of a kind; per kind, or in two keys as of old."""
    kind = _SLIDING if sliding else _FULL
    ropes = {} if text.get("rope_parameters") is None else _object(text, "rope_parameters", _TEXT)
    if ropes.get(kind) is None:
        if sliding:
            return _number(text, "rope_local_base_freq", 1e4), 1.0
        return _number(text, "rope_theta", 1e6), 0.25
    rope = _object(ropes, kind, "rope_parameters")
    refuse_other_values(rope, _ASSUMED_ROPE[kind], file=kind)
    share = number(rope, "partial_rotary_factor", 1.0, file=kind)
    if share > 1.0:
        raise InvalidCheckpointError(f"{kind}: 'partial_rotary_factor' is {share:g}, above 1.", hint=_HINT)
    return number(rope, "rope_theta", 1e4 if sliding else 1e6, file=kind), share


def _object(values: dict[str, Any], key: str, file: str) -> dict[str, Any]:
    value = values.get(key)
    if not isinstance(value, dict):
        raise InvalidCheckpointError(f"{file}: '{key}' is not an object.", hint=_HINT)
    return value

"""What a GGUF file says of its model, in the words of the Hugging Face config that it was converted from.

Keys as llama.cpp's converters write them; those of ``llada2`` as the community's files have them. A key that the file
lacks is left out, so that the family's own default holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unmask.checkpoints.gguf_header import ArrayInfo, GgufHeader, read_array
from unmask.errors import InvalidCheckpointError, UnknownArchitectureError
from unmask.models.config import Config
from unmask.shown import shown

Values = dict[str, Any]


def config_of_gguf(header: GgufHeader) -> tuple[Config, Config]:
    """What ``config.json`` and ``generation_config.json`` would hold.

    Raises ``UnknownArchitectureError``, or ``InvalidCheckpointError`` naming a key that the file lacks.
    """
    convert = _CONVERTERS.get(header.architecture or "")
    if convert is None:
        raise UnknownArchitectureError(
            f"Unmask does not serve the GGUF architecture {shown(header.architecture)}.",
            hint=f"Unmask serves {', '.join(_CONVERTERS)}.",
        )
    keys = _Keys(header)
    said = {
        "shift_logits": keys.plain("diffusion.shift_logits"),
        "mask_token_id": keys.plain("tokenizer.ggml.mask_token_id"),
        "eos_token_id": [keys.plain("tokenizer.ggml.eos_token_id"), keys.plain("tokenizer.ggml.eot_token_id")],
        "rope_scaling": keys.rope_scaling,
    }
    return Config(said | convert(keys), header.path.name), Config(_generation(keys), header.path.name)


class _Keys:
    """The metadata of one file; names without a dot's prefix are those of its architecture."""

    def __init__(self, header: GgufHeader) -> None:
        self.header = header

    def plain(self, key: str) -> Any:
        """The value of ``key``, an array's as a list; ``None`` if the file lacks it."""
        value = self.header.metadata.get(key)
        return read_array(self.header, key) if isinstance(value, ArrayInfo) else value

    def get(self, name: str) -> Any:
        """The value of the architecture's key ``name``."""
        return self.plain(f"{self.header.architecture}.{name}")

    def need(self, name: str) -> Any:
        """The same; raises ``InvalidCheckpointError`` if the file lacks it."""
        value = self.get(name)
        if value is None:
            raise InvalidCheckpointError(
                f"'{self.header.path}' lacks the key '{self.header.architecture}.{name}'.",
                hint="Convert the model again with a current converter.",
            )
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """The positive integer of the architecture's key ``name``; raises ``InvalidCheckpointError`` for another."""
        key = f"{self.header.architecture}.{name}"
        return Config({key: self.get(name)}, self.header.path.name).integer(key, default)

    @property
    def layers(self) -> int:
        """Number of layers."""
        key = f"{self.header.architecture}.block_count"
        return Config({key: self.get("block_count")}, self.header.path.name).layer_count(key)

    def present(self, values: Values) -> Values:
        """``values`` without those that are ``None``."""
        return {name: value for name, value in values.items() if value is not None}

    @property
    def vocab(self) -> int:
        """Number of tokens: rows of the embedding."""
        embedding = self.header.tensors.get("token_embd.weight")
        if embedding is None or len(embedding.shape) != 2:
            raise InvalidCheckpointError(
                f"'{self.header.path}' has no token embedding (token_embd.weight).", hint="Convert the model again."
            )
        return embedding.shape[0]

    @property
    def rope_scaling(self) -> Values | None:
        """How rotation is scaled, read as llama.cpp does, to which no type means "linear"; ``None`` if it is plain."""
        kind = self.get("rope.scaling.type") or "linear"
        factor = self.get("rope.scaling.factor") or self.get("rope.scale_linear") or 1.0
        return None if kind == "none" or (kind, factor) == ("linear", 1.0) else {"type": kind, "factor": factor}

    def rotary_share(self, default: float = 1.0) -> float:
        """The share of a head that rotates."""
        even = self.integer("embedding_length") // self.integer("attention.head_count")
        size = self.integer("attention.key_length", max(even, 1))
        return self.integer("rope.dimension_count", round(default * size)) / size

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding: then the file has none."""
        return "output.weight" not in self.header.tensors


def _llada(keys: _Keys) -> Values:
    return keys.present(
        {
            "architectures": ["LLaDAModelLM"],
            "d_model": keys.need("embedding_length"),
            "n_layers": keys.layers,
            "n_heads": keys.need("attention.head_count"),
            "n_kv_heads": keys.get("attention.head_count_kv"),
            "mlp_hidden_size": keys.need("feed_forward_length"),
            "vocab_size": keys.vocab,
            "max_sequence_length": keys.need("context_length"),
            "rms_norm_eps": keys.get("attention.layer_norm_rms_epsilon"),
            "rope_theta": keys.get("rope.freq_base"),
            "partial_rotary_factor": keys.rotary_share(),
            "weight_tying": keys.tied,
        }
    )


def _qwen(keys: _Keys, architecture: str, **more: Any) -> Values:
    """What the layouts of Hugging Face's Qwen classes share."""
    return keys.present(
        {
            "architectures": [architecture],
            "hidden_size": keys.need("embedding_length"),
            "num_hidden_layers": keys.layers,
            "num_attention_heads": keys.need("attention.head_count"),
            "num_key_value_heads": keys.get("attention.head_count_kv"),
            "head_dim": keys.get("attention.key_length"),
            "intermediate_size": keys.get("feed_forward_length"),
            "vocab_size": keys.vocab,
            "max_position_embeddings": keys.need("context_length"),
            "rms_norm_eps": keys.get("attention.layer_norm_rms_epsilon"),
            "rope_theta": keys.get("rope.freq_base"),
            "partial_rotary_factor": keys.rotary_share(),
            "tie_word_embeddings": keys.tied,
            **more,
        }
    )


def _dream(keys: _Keys) -> Values:
    return _qwen(keys, "DreamModel")


def _experts(keys: _Keys) -> Values:
    return {"num_experts": keys.need("expert_count"), "num_experts_per_tok": keys.need("expert_used_count")}


_SOFTMAX, _SIGMOID = 1, 2  # llama.cpp's numbers for how a router's logits become scores


def _score(keys: _Keys, default: int) -> str:
    number = keys.integer("expert_gating_func", default)
    return {_SOFTMAX: "softmax", _SIGMOID: "sigmoid"}.get(number, f"llama.cpp's number {number}")


def _has(keys: _Keys, tensor: str) -> bool:
    return any(name.endswith(tensor) for name in keys.header.tensors)


def _llada_moe(keys: _Keys) -> Values:
    return _qwen(
        keys,
        "LLaDAMoEModelLM",
        **_experts(keys),
        expert_intermediate_size=keys.get("expert_feed_forward_length"),
        dense_intermediate_size=keys.get("feed_forward_length"),
        shared_expert_intermediate_size=keys.get("expert_shared_feed_forward_length"),
        moe_layer_freq=[int(f"blk.{n}.ffn_gate_inp.weight" in keys.header.tensors) for n in range(keys.layers)],
        moe_router_score_function=_score(keys, _SOFTMAX),
        moe_router_enable_expert_bias=_has(keys, ".exp_probs_b.bias"),
        routed_scaling_factor=keys.get("expert_weights_scale"),
        norm_topk_prob=keys.get("expert_weights_norm"),
    )


def _llada2(keys: _Keys) -> Values:
    inner = keys.integer("expert_feed_forward_length")
    shared = keys.integer("expert_shared_feed_forward_length", inner * keys.integer("expert_shared_count", 1))
    return _qwen(
        keys,
        "LLaDA2MoeModelLM",
        **_experts(keys),
        moe_intermediate_size=inner,
        num_shared_experts=shared // inner,
        first_k_dense_replace=keys.get("leading_dense_block_count"),
        n_group=keys.get("expert_group_count"),
        topk_group=keys.get("expert_group_used_count"),
        routed_scaling_factor=keys.get("expert_weights_scale"),
        norm_topk_prob=keys.get("expert_weights_norm"),
        score_function=_score(keys, _SIGMOID),
        moe_router_enable_expert_bias=_has(keys, ".exp_probs_b.bias"),
        partial_rotary_factor=keys.rotary_share(0.5),
    )


def _rnd1(keys: _Keys) -> Values:
    return _qwen(
        keys,
        "RND1",
        **_experts(keys),
        moe_intermediate_size=keys.get("expert_feed_forward_length"),
        norm_topk_prob=True,
    )


def _diffusion_gemma(keys: _Keys) -> Values:
    layers = keys.layers
    sliding = keys.need("attention.sliding_window_pattern")
    kv_heads = keys.need("attention.head_count_kv")
    if not isinstance(sliding, list) or not isinstance(kv_heads, list) or not len(sliding) == len(kv_heads) == layers:
        raise InvalidCheckpointError(
            f"'{keys.header.path}' does not say of each of its {layers} layers whether it slides, and its heads.",
            hint="Convert the model again with a current converter.",
        )
    by_kind = dict(zip(sliding, kv_heads, strict=True))
    text = {
        "hidden_size": keys.need("embedding_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": keys.need("attention.head_count"),
        "num_key_value_heads": by_kind.get(True),
        "num_global_key_value_heads": by_kind.get(False),
        "head_dim": keys.need("attention.key_length_swa"),
        "global_head_dim": keys.need("attention.key_length"),
        "layer_types": ["sliding_attention" if slides else "full_attention" for slides in sliding],
        "sliding_window": keys.need("attention.sliding_window"),
        "intermediate_size": keys.need("feed_forward_length"),
        "num_experts": keys.need("expert_count"),
        "top_k_experts": keys.need("expert_used_count"),
        "moe_intermediate_size": keys.need("expert_feed_forward_length"),
        "vocab_size": keys.vocab,
        "max_position_embeddings": keys.need("context_length"),
        "rms_norm_eps": keys.get("attention.layer_norm_rms_epsilon"),
        "rope_theta": keys.get("rope.freq_base"),
        "rope_local_base_freq": keys.get("rope.freq_base_swa"),
        "rope_scaling": keys.rope_scaling,
        "final_logit_softcapping": keys.get("final_logit_softcapping"),
    }
    return keys.present(
        {
            "architectures": ["DiffusionGemmaForBlockDiffusion"],
            "canvas_length": keys.plain("diffusion.canvas_length"),
            "text_config": keys.present(text),
        }
    )


def _generation(keys: _Keys) -> Values:
    """The sampler's settings that DiffusionGemma's files carry."""
    said = {
        "max_denoising_steps": keys.plain("diffusion.eb_max_steps"),
        "t_min": keys.plain("diffusion.eb_t_min"),
        "t_max": keys.plain("diffusion.eb_t_max"),
        "stability_threshold": keys.plain("diffusion.eb_stability_threshold"),
        "confidence_threshold": keys.plain("diffusion.eb_confidence_threshold"),
    }
    bound = keys.plain("diffusion.eb_entropy_bound")
    return keys.present(said) | ({} if bound is None else {"sampler_config": {"entropy_bound": bound}})


_CONVERTERS: dict[str, Callable[[_Keys], Values]] = {
    "llada": _llada,
    "llada-moe": _llada_moe,
    "llada2": _llada2,
    "dream": _dream,
    "rnd1": _rnd1,
    "diffusion-gemma": _diffusion_gemma,
    "diffusiongemma": _diffusion_gemma,
}
GGUF_ARCHITECTURES = frozenset(_CONVERTERS)

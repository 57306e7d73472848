"""What families in the layout of Hugging Face's Qwen classes share: config keys and tensor names."""

from __future__ import annotations

from typing import Any

from unmask.models.config import Config
from unmask.models.spec import ExpertShape, TensorNames, TransformerShape

NAMES = TensorNames(
    embedding="model.embed_tokens",
    final_norm="model.norm",
    head="lm_head",
    attention_norm="model.layers.{n}.input_layernorm",
    query="model.layers.{n}.self_attn.q_proj",
    key="model.layers.{n}.self_attn.k_proj",
    value="model.layers.{n}.self_attn.v_proj",
    query_norm="model.layers.{n}.self_attn.q_norm",
    key_norm="model.layers.{n}.self_attn.k_norm",
    output="model.layers.{n}.self_attn.o_proj",
    mlp_norm="model.layers.{n}.post_attention_layernorm",
    gate="model.layers.{n}.mlp.gate_proj",
    up="model.layers.{n}.mlp.up_proj",
    down="model.layers.{n}.mlp.down_proj",
    router="model.layers.{n}.mlp.gate",
    expert_gate="model.layers.{n}.mlp.experts.{e}.gate_proj",
    expert_up="model.layers.{n}.mlp.experts.{e}.up_proj",
    expert_down="model.layers.{n}.mlp.experts.{e}.down_proj",
)

# The config knobs of these classes that would change the forward pass, at the one value we implement.
_ASSUMED: dict[str, Any] = {
    "hidden_act": "silu",
    "attention_bias": False,
    "use_sliding_window": False,
    "use_mrope": False,
}


def shape(
    config: Config,
    *,
    intermediate: int | None = None,
    head: int | None = None,
    theta: float = 1e6,
    eps: float = 1e-6,
    context_length: int = 32768,
    qkv_bias: bool = False,
    qk_norm: bool = False,
    experts: ExpertShape | None = None,
    expert_layers: frozenset[int] = frozenset(),
) -> TransformerShape:
    """Sizes from ``config.json``; the arguments are what a family takes where a key is absent, or what it is.

    Raises ``InvalidCheckpointError`` naming a key we cannot honour.
    """
    layers, hidden = config.layer_count("num_hidden_layers"), config.integer("hidden_size")
    config.refuse_other_than(_ASSUMED | {"layer_types": ["full_attention"] * layers})
    heads = config.integer("num_attention_heads")
    size = config.head_size(hidden, heads) if head is None else config.integer("head_dim", head)
    rope_theta, share = config.rope(theta)
    return TransformerShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_size=size,
        intermediate=config.integer("intermediate_size", intermediate),
        vocab=config.integer("vocab_size"),
        norm_eps=config.number("rms_norm_eps", eps),
        rope_theta=rope_theta,
        context_length=config.integer("max_position_embeddings", context_length),
        rotary_size=round(share * size),
        qkv_bias=qkv_bias,
        qk_norm=qk_norm,
        tied=config.flag("tie_word_embeddings", False),
        experts=experts,
        expert_layers=expert_layers,
    )


def moe_shape(config: Config) -> TransformerShape:
    """Sizes of a Qwen3-MoE; absent keys take the values of Qwen3-30B-A3B. Raises ``InvalidCheckpointError``."""
    experts = ExpertShape(
        experts=config.integer("num_experts", 128),
        used=config.integer("num_experts_per_tok", 8),
        intermediate=config.integer("moe_intermediate_size", 768),
        normalized=config.flag("norm_topk_prob", True),
    )
    every = config.integer("decoder_sparse_step", 1)
    dense = config.integers("mlp_only_layers")
    layers = range(config.layer_count("num_hidden_layers"))
    return shape(
        config,
        intermediate=6144,
        head=128,
        context_length=40960,
        qk_norm=True,
        experts=experts,
        expert_layers=frozenset(n for n in layers if n not in dense and (n + 1) % every == 0),
    )

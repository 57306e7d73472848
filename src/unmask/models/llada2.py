"""LLaDA 2.0 and 2.1, mini and flash: block-causal, partly rotating heads, experts in groups. Both decode alike.

Reference: inclusionAI/LLaDA2.0-mini; config keys and tensor names as published on Hugging Face.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unmask.models import qwen
from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.samplers import LLADA2
from unmask.models.spec import ExpertShape, TransformerShape

NAMES = replace(
    qwen.NAMES,
    embedding="model.word_embeddings",
    query="",
    key="",
    value="",
    qkv="model.layers.{n}.attention.query_key_value",
    query_norm="model.layers.{n}.attention.query_layernorm",
    key_norm="model.layers.{n}.attention.key_layernorm",
    output="model.layers.{n}.attention.dense",
    router_bias="model.layers.{n}.mlp.gate.expert_bias",
    shared_gate="model.layers.{n}.mlp.shared_experts.gate_proj",
    shared_up="model.layers.{n}.mlp.shared_experts.up_proj",
    shared_down="model.layers.{n}.mlp.shared_experts.down_proj",
)

# The config knobs of the published class that would change the forward pass, at the one value we implement.
_ASSUMED: dict[str, Any] = {
    "hidden_act": "silu",
    "use_rmsnorm": True,
    "use_bias": False,
    "use_qkv_bias": False,
    "using_split_qkv_in_self_attention": False,
    "use_sliding_window": False,
    "norm_head": False,
    "norm_softmax": False,
    "score_function": "sigmoid",
    "router_dtype": "fp32",
}


def shape(config: Config) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    size = config.head_size(hidden, heads)
    theta, share = config.rope(600000.0, 0.5)
    rotary_size = round(share * size)
    config.refuse_other_than(_ASSUMED | {"rotary_dim": rotary_size})
    layers, dense = config.layer_count("num_hidden_layers"), config.integer("first_k_dense_replace", 0, least=0)
    return TransformerShape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_size=size,
        intermediate=config.integer("intermediate_size"),
        vocab=config.integer("vocab_size"),
        norm_eps=config.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        context_length=config.integer("max_position_embeddings", 32768),
        rotary_size=rotary_size,
        qk_norm=config.flag("use_qk_norm", True),
        tied=config.flag("tie_word_embeddings", False),
        experts=_experts(config),
        expert_layers=frozenset(range(dense, layers)),
    )


def _experts(config: Config) -> ExpertShape:
    intermediate = config.integer("moe_intermediate_size")
    return ExpertShape(
        experts=config.integer("num_experts"),
        used=config.integer("num_experts_per_tok"),
        intermediate=intermediate,
        shared_intermediate=intermediate * config.integer("num_shared_experts", 0, least=0),
        score="sigmoid",
        bias="selection" if config.flag("moe_router_enable_expert_bias", True) else "none",
        normalized=config.flag("norm_topk_prob", True),
        scale=config.number("routed_scaling_factor", 2.5),
        groups=config.integer("n_group", 8),
        groups_used=config.integer("topk_group", 4),
    )


FAMILY = Family(
    name="llada2",
    architectures=("LLaDA2MoeModelLM",),
    shape=shape,
    tensors=NAMES,
    sampler=LLADA2,
    mask_id=156895,
    mask_tokens=("<|mask|>",),
    end_tokens=("<|endoftext|>", "<|role_end|>"),
)

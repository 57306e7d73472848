"""LLaDA-MoE 7B-A1B: full attention, and experts whose weights are left as the router gives them.

Reference: inclusionAI/LLaDA-MoE-7B-A1B; config keys and tensor names as published on Hugging Face.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unmask.models import qwen
from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.samplers import FULL
from unmask.models.spec import ExpertShape, TransformerShape

NAMES = replace(
    qwen.NAMES,
    router_bias="model.layers.{n}.mlp.expert_bias",
    shared_gate="model.layers.{n}.shared_expert.gate_proj",
    shared_up="model.layers.{n}.shared_expert.up_proj",
    shared_down="model.layers.{n}.shared_expert.down_proj",
)

_ASSUMED: dict[str, Any] = {
    "moe_router_score_function": "softmax",
    "norm_topk_prob": False,
    "router_num_group": 1,
    "router_topk_group": 1,
    "clip_qkv": None,
}


def shape(config: Config) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    config.refuse_other_than(_ASSUMED)
    experts = ExpertShape(
        experts=config.integer("num_experts", 64),
        used=config.integer("num_experts_per_tok", 8),
        intermediate=config.integer("expert_intermediate_size", 1024),
        shared_intermediate=config.integer("shared_expert_intermediate_size", 0, least=0),
        bias="weights" if config.flag("moe_router_enable_expert_bias", False) else "none",
        scale=config.number("routed_scaling_factor", 1.0),
    )
    dense = config.integer("dense_intermediate_size", 8192)
    return qwen.shape(
        replace(config, values=config.values | {"intermediate_size": dense}),
        theta=50000.0,
        eps=1e-5,
        context_length=8192,
        qk_norm=config.flag("qk_layernorm", True),
        experts=experts,
        expert_layers=_expert_layers(config),
    )


def _expert_layers(config: Config) -> frozenset[int]:
    """The layers that ``moe_layer_freq`` marks; all of them where it is absent."""
    layers = config.layer_count("num_hidden_layers")
    marks = config.integers("moe_layer_freq") or [1] * layers
    if len(marks) != layers:
        raise config.fault(f"'moe_layer_freq' is about {len(marks)} of {layers} layers")
    return frozenset(n for n, mark in enumerate(marks) if mark)


FAMILY = Family(
    name="llada_moe",
    architectures=("LLaDAMoEModelLM",),
    shape=shape,
    tensors=NAMES,
    sampler=FULL,
    mask_id=156895,
    mask_tokens=("<|mask|>",),
    end_tokens=("<|endoftext|>", "<|role_end|>"),
)

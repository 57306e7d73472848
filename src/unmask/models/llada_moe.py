"""LLaDA-MoE 7B-A1B: full attention, and experts whose weights are left as the router gives them.

Reference: inclusionAI/LLaDA-MoE-7B-A1B; config keys and tensor names as published on Hugging Face.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unmask.errors import InvalidCheckpointError
from unmask.models import qwen
from unmask.models.config import flag, integer, integers, layer_count, number, refuse_other_values
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


def shape(config: dict[str, Any]) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    refuse_other_values(config, _ASSUMED)
    experts = ExpertShape(
        experts=integer(config, "num_experts", 64),
        used=integer(config, "num_experts_per_tok", 8),
        intermediate=integer(config, "expert_intermediate_size", 1024),
        shared_intermediate=integer(config, "shared_expert_intermediate_size", 0, least=0),
        bias="weights" if flag(config, "moe_router_enable_expert_bias", False) else "none",
        scale=number(config, "routed_scaling_factor", 1.0),
    )
    return qwen.shape(
        config | {"intermediate_size": integer(config, "dense_intermediate_size", 8192)},
        theta=50000.0,
        eps=1e-5,
        context_length=8192,
        qk_norm=flag(config, "qk_layernorm", True),
        experts=experts,
        expert_layers=_expert_layers(config),
    )


def _expert_layers(config: dict[str, Any]) -> frozenset[int]:
    """The layers that ``moe_layer_freq`` marks; all of them where it is absent."""
    layers = layer_count(config, "num_hidden_layers")
    marks = integers(config, "moe_layer_freq") or [1] * layers
    if len(marks) != layers:
        raise InvalidCheckpointError(f"config.json: 'moe_layer_freq' is about {len(marks)} of {layers} layers.")
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

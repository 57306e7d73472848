"""LLaDA (8B Base and Instruct, 1.5) and block-causal models in the same layout (the embedded ``unmask-tiny``).

Reference: ML-GSAI/LLaDA; config keys and tensor names as published on Hugging Face.
"""

from __future__ import annotations

from typing import Any

from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.samplers import FULL
from unmask.models.spec import TensorNames, TransformerShape

NAMES = TensorNames(
    embedding="model.transformer.wte",
    final_norm="model.transformer.ln_f",
    head="model.transformer.ff_out",
    attention_norm="model.transformer.blocks.{n}.attn_norm",
    query="model.transformer.blocks.{n}.q_proj",
    key="model.transformer.blocks.{n}.k_proj",
    value="model.transformer.blocks.{n}.v_proj",
    output="model.transformer.blocks.{n}.attn_out",
    mlp_norm="model.transformer.blocks.{n}.ff_norm",
    gate="model.transformer.blocks.{n}.ff_proj",
    up="model.transformer.blocks.{n}.up_proj",
    down="model.transformer.blocks.{n}.ff_out",
)

# The config knobs of the published class that would change the forward pass, at the one value we implement.
_ASSUMED: dict[str, Any] = {
    "block_type": "llama",
    "layer_norm_type": "rms",
    "activation_type": "silu",
    "rope": True,
    "alibi": False,
    "attention_layer_norm": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "input_emb_norm": False,
    "scale_logits": False,
    "clip_qkv": None,
    "block_group_size": 1,
}


def shape(config: Config) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    config.refuse_other_than(_ASSUMED)
    hidden, heads = config.integer("d_model"), config.integer("n_heads")
    size = config.head_size(hidden, heads)
    theta, share = config.rope(10000.0)
    return TransformerShape(
        layers=config.layer_count("n_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=config.integer("n_kv_heads", heads),
        head_size=size,
        intermediate=config.integer("mlp_hidden_size", config.integer("mlp_ratio", 4) * hidden),
        vocab=config.integer("embedding_size", config.integer("vocab_size")),
        norm_eps=config.number("rms_norm_eps", 1e-5),
        rope_theta=theta,
        context_length=config.integer("max_sequence_length"),
        rotary_size=round(share * size),
        tied=config.flag("weight_tying", False),
    )


FAMILY = Family(
    name="llada",
    architectures=("LLaDAModelLM",),
    shape=shape,
    tensors=NAMES,
    sampler=FULL,
    mask_id=126336,
    mask_tokens=("<|mdm_mask|>",),
    end_tokens=("<|eot_id|>",),
)

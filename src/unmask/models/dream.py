"""Dream 7B and DiffuCoder: Qwen2.5 without its causal mask, logits shifted by one.

Reference: HKUNLP/Dream; config keys and tensor names as published on Hugging Face.
"""

from __future__ import annotations

from typing import Any

from unmask.models.base import TensorNames, TransformerShape
from unmask.models.config import integer, number, refuse_other_values

ARCHITECTURE = "DreamModel"
MASK_ID = 151666
END_TOKENS = ("<|im_end|>",)

NAMES = TensorNames(
    embedding="model.embed_tokens",
    final_norm="model.norm",
    head="lm_head",
    attention_norm="model.layers.{n}.input_layernorm",
    query="model.layers.{n}.self_attn.q_proj",
    key="model.layers.{n}.self_attn.k_proj",
    value="model.layers.{n}.self_attn.v_proj",
    output="model.layers.{n}.self_attn.o_proj",
    mlp_norm="model.layers.{n}.post_attention_layernorm",
    gate="model.layers.{n}.mlp.gate_proj",
    up="model.layers.{n}.mlp.up_proj",
    down="model.layers.{n}.mlp.down_proj",
)

_ASSUMED: dict[str, Any] = {"hidden_act": "silu", "rope_scaling": None, "use_sliding_window": False, "use_mrope": False}


def shape(config: dict[str, Any]) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    refuse_other_values(config, _ASSUMED)
    hidden, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return TransformerShape(
        layers=integer(config, "num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=integer(config, "num_key_value_heads", heads),
        head_size=hidden // heads,
        intermediate=integer(config, "intermediate_size"),
        vocab=integer(config, "vocab_size"),
        norm_eps=number(config, "rms_norm_eps", 1e-6),
        rope_theta=number(config, "rope_theta", 1e6),
        context_length=integer(config, "max_position_embeddings", 32768),
        qkv_bias=True,
        tied=bool(config.get("tie_word_embeddings", False)),
    )

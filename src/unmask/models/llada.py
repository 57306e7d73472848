"""LLaDA (8B Base and Instruct, 1.5) and block-causal models in the same layout (the embedded ``unmask-tiny``).

Reference: ML-GSAI/LLaDA; config keys and tensor names as published on Hugging Face.
"""

from __future__ import annotations

from typing import Any

from unmask.models.base import TensorNames, TransformerShape
from unmask.models.config import integer, number, refuse_other_values

ARCHITECTURE = "LLaDAModelLM"
MASK_ID = 126336
END_TOKENS = ("<|eot_id|>",)

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


def shape(config: dict[str, Any]) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    refuse_other_values(config, _ASSUMED)
    hidden, heads = integer(config, "d_model"), integer(config, "n_heads")
    return TransformerShape(
        layers=integer(config, "n_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=integer(config, "n_kv_heads", heads),
        head_size=hidden // heads,
        intermediate=integer(config, "mlp_hidden_size", integer(config, "mlp_ratio", 4) * hidden),
        vocab=integer(config, "embedding_size", integer(config, "vocab_size")),
        norm_eps=number(config, "rms_norm_eps", 1e-5),
        rope_theta=number(config, "rope_theta", 10000.0),
        context_length=integer(config, "max_sequence_length"),
        tied=bool(config.get("weight_tying", False)),
    )

"""SDAR and TraDo: Qwen3, dense or with experts, attending block by block.

Reference: JetAstra/SDAR; config keys as published on Hugging Face.
"""

from __future__ import annotations

from dataclasses import replace

from unmask.models import qwen
from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.samplers import SDAR
from unmask.models.spec import TransformerShape


def shape(config: Config) -> TransformerShape:
    """Sizes of a dense SDAR from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    return qwen.shape(config, head=128, qk_norm=True)


FAMILY = Family(
    name="sdar",
    architectures=("SDARForCausalLM",),
    shape=shape,
    tensors=qwen.NAMES,
    sampler=SDAR,
    mask_id=151669,
    mask_tokens=("<|MASK|>",),
    end_tokens=("<|im_end|>", "<|endoftext|>"),
)
MOE_FAMILY = replace(FAMILY, architectures=("SDARMoeForCausalLM",), shape=qwen.moe_shape)

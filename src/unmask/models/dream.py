"""Dream 7B and DiffuCoder: Qwen2.5 without its causal mask, logits shifted by one.

Reference: HKUNLP/Dream; config keys as published on Hugging Face.
"""

from __future__ import annotations

from unmask.models import qwen
from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.samplers import FULL
from unmask.models.spec import TransformerShape


def shape(config: Config) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    return qwen.shape(config, qkv_bias=True)


FAMILY = Family(
    name="dream",
    architectures=("DreamModel",),
    shape=shape,
    tensors=qwen.NAMES,
    sampler=FULL,
    shifted=True,
    mask_id=151666,
    mask_tokens=("<|mask|>",),
    end_tokens=("<|im_end|>",),
)

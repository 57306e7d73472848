"""Fast-dLLM v2: Qwen2.5 attending block by block, logits shifted by one, blocks denoised in smaller blocks.

Reference: NVlabs/Fast-dLLM v2; config keys as published on Hugging Face.
"""

from __future__ import annotations

from unmask.models import qwen
from unmask.models.config import Config
from unmask.models.family import Family
from unmask.models.samplers import FAST_DLLM_V2
from unmask.models.spec import TransformerShape


def shape(config: Config) -> TransformerShape:
    """Sizes from ``config.json``. Raises ``InvalidCheckpointError`` naming a key we cannot honour."""
    return qwen.shape(config, qkv_bias=True)


FAMILY = Family(
    name="fast_dllm_v2",
    architectures=("Fast_dLLM_QwenForCausalLM",),
    shape=shape,
    tensors=qwen.NAMES,
    sampler=FAST_DLLM_V2,
    shifted=True,
    mask_id=151665,
    mask_tokens=("|<MASK>|",),
    end_tokens=("<|im_end|>",),
)

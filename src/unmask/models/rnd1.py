"""RND1: Qwen3-30B-A3B without its causal mask, logits shifted by one.

Reference: radicalnumerics/RND1-Base-0910; config keys as published on Hugging Face.
"""

from __future__ import annotations

from unmask.models import qwen
from unmask.models.family import Family
from unmask.models.samplers import FULL

FAMILY = Family(
    name="rnd1",
    architectures=("RND1", "RND1LM"),  # as llama.cpp's converter knows the published config; as its class is called
    shape=qwen.moe_shape,
    tensors=qwen.NAMES,
    sampler=FULL,
    shifted=True,
    mask_id=151669,
    mask_tokens=("<|mask|>",),
    end_tokens=("<|im_end|>", "<|endoftext|>"),
)

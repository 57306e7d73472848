"""What engines tell of their models, for tests that have none."""

from __future__ import annotations

from unmask.models import samplers
from unmask.params import ModelInfo

SAMPLERS = {
    "full": samplers.FULL,
    "block_causal": samplers.D2F,
    "from_start": samplers.LLADA2,
    "sub_block": samplers.FAST_DLLM_V2,
    "renoise": samplers.DIFFUSION_GEMMA,
}


def model_info(kind: str = "block_causal", **changes) -> ModelInfo:
    """A model that is decoded as ``kind`` says, a key of ``SAMPLERS``; anything of it may be changed."""
    sampler = SAMPLERS[kind]
    known = {
        "name": "toy",
        "family": "toy",
        "attention": sampler.attention,
        "denoiser": sampler.denoiser,
        "anchor": sampler.anchor,
        "shifted": kind == "sub_block",
        "rules": sampler.rules,
        "caches": sampler.caches,
        "defaults": dict(sampler.defaults),
        "block_length": 4,
        "max_tokens": 40,
        "context_length": 64,
        "vocab_size": 10,
        "mask_id": None if kind == "renoise" else 9,
        "end_ids": (0,),
        "parameters": 0,
    }
    return ModelInfo(**known | changes)

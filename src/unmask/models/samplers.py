"""How families are decoded: which denoiser works on the canvas, what a request may choose, what it gets by default.

Defaults are those of each family's reference sampler; where they are not given, those of ``unmask.resolve`` hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unmask.params import Anchor, Attention, DenoiserKind

_RULES = (
    "threshold",
    "low_confidence",
    "factor",
    "dynamic",
    "sequential",
    "paced_threshold",
    "maskgit_plus",
    "topk_margin",
    "entropy",
    "origin",
)
# What one look at the block may decide beyond its most probable tokens; none of these is a family's own.
_ONE_WAY = ("eb", "local_leap", "hierarchy", "credit", "klass", "prophet")
_ADAPTIVE = (*_ONE_WAY, "saber", "wino")
_DYNAMIC_FIRST = tuple(sorted(_RULES, key=lambda rule: rule != "dynamic"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """What ``ModelSpec`` says of decoding, before a checkpoint has its say.

    ``block_key`` is the config's key for the block length, ``block_length`` what holds where it is absent.
    ``adapted`` is how such a model can be made to attend instead; ``None`` if it cannot.
    """

    attention: Attention
    denoiser: DenoiserKind
    anchor: Anchor
    rules: tuple[str, ...]
    caches: tuple[str, ...]
    max_tokens: int = 512
    block_key: str = "block_size"
    block_length: int = 32
    defaults: Mapping[str, float | int | str | bool] = field(default_factory=dict)
    adapted: Sampler | None = None


D2F = Sampler(
    attention="block_causal",
    denoiser="block_causal",
    anchor="prompt_end",
    rules=(*_RULES, "d2f", *_ADAPTIVE),
    caches=("exact", "none"),
)
FULL = Sampler(
    attention="full",
    denoiser="full",
    anchor="prompt_end",
    rules=(*_RULES, *_ADAPTIVE),
    caches=("none", "prefix", "dual", "delayed"),
    max_tokens=128,
    adapted=D2F,
)
LLADA2 = Sampler(
    attention="block_causal",
    denoiser="block_causal",
    anchor="start",
    rules=(*_DYNAMIC_FIRST, "joint_threshold", *_ADAPTIVE),
    caches=("exact", "none"),
    defaults={"threshold": 0.95},
)
SDAR = Sampler(
    attention="block_causal",
    denoiser="block_causal",
    anchor="start",
    rules=(*_DYNAMIC_FIRST, *_ADAPTIVE),
    caches=("exact", "none"),
    block_length=4,
    defaults={"threshold": 0.85},
)
FAST_DLLM_V2 = Sampler(
    attention="block_causal",
    denoiser="sub_block",
    anchor="start",
    rules=("dynamic", "threshold", "low_confidence", "factor", "sequential", *_ONE_WAY),
    caches=("exact", "dual"),
    block_key="bd_size",
    defaults={"threshold": 0.95, "early_exit": True},
)
DIFFUSION_GEMMA = Sampler(
    attention="causal_prompt",
    denoiser="renoise",
    anchor="prompt_end",
    rules=("entropy_bound",),
    caches=("exact",),
    block_key="canvas_length",
    block_length=256,
    defaults={"temperature": 1.0},
)

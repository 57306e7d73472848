"""How families are decoded: which denoiser works on the canvas, what a request may choose, what it gets by default.

Defaults are those of each family's reference sampler; where they are not given, those of ``unmask.resolve`` hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unmask.errors import InvalidCheckpointError
from unmask.models.config import integer, number, refuse_other_values
from unmask.params import Anchor, Attention, DenoiserKind

_GENERATION = "generation_config.json"
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
_DYNAMIC_FIRST = tuple(sorted(_RULES, key=lambda rule: rule != "dynamic"))


@dataclass(frozen=True, slots=True)
class Sampler:
    """What ``ModelSpec`` says of decoding, before a checkpoint has its say.

    ``block_key`` is the config's key for the block length, ``block_length`` what holds where it is absent.
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


FULL = Sampler("full", "full", "prompt_end", _RULES, ("none", "prefix", "dual"), max_tokens=128)
D2F = Sampler("block_causal", "block_causal", "prompt_end", (*_RULES, "d2f"), ("exact", "none"))
LLADA2 = Sampler(
    "block_causal",
    "block_causal",
    "start",
    (*_DYNAMIC_FIRST, "joint_threshold"),
    ("exact", "none"),
    defaults={"threshold": 0.95},
)
SDAR = Sampler(
    "block_causal",
    "block_causal",
    "start",
    _DYNAMIC_FIRST,
    ("exact", "none"),
    block_length=4,
    defaults={"threshold": 0.85},
)
FAST_DLLM_V2 = Sampler(
    "block_causal",
    "sub_block",
    "start",
    ("dynamic", "threshold", "low_confidence", "factor", "sequential"),
    ("exact", "dual"),
    block_key="bd_size",
    defaults={"threshold": 0.95, "sub_block_length": 8, "early_exit": True},
)
DIFFUSION_GEMMA = Sampler(
    "causal_prompt",
    "renoise",
    "prompt_end",
    ("entropy_bound",),
    ("exact",),
    block_key="canvas_length",
    block_length=256,
    defaults={
        "temperature": 1.0,
        "steps": 48,
        "entropy_bound": 0.1,
        "t_min": 0.4,
        "t_max": 0.8,
        "stability_threshold": 1,
        "confidence_threshold": 0.005,
    },
)


def renoise_defaults(generation: dict[str, Any]) -> dict[str, float | int | str | bool]:
    """DiffusionGemma's defaults, as far as its ``generation_config.json`` does not say otherwise.

    Raises ``InvalidCheckpointError`` naming a key we cannot honour.
    """
    sampler = generation.get("sampler_config") or {}
    if not isinstance(sampler, dict):
        raise InvalidCheckpointError(f"{_GENERATION}: 'sampler_config' is {sampler!r}, not an object.")
    refuse_other_values(sampler, {"_cls_name": "EntropyBoundSamplerConfig"}, file=_GENERATION)
    said = generation | {"entropy_bound": sampler.get("entropy_bound"), "steps": generation.get("max_denoising_steps")}
    defaults = dict(DIFFUSION_GEMMA.defaults)
    for name in ("entropy_bound", "t_min", "t_max", "confidence_threshold"):
        defaults[name] = number(said, name, float(defaults[name]), file=_GENERATION)
    for name in ("steps", "stability_threshold"):
        defaults[name] = integer(said, name, int(defaults[name]), least=0, file=_GENERATION)
    return defaults

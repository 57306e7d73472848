"""What DiffusionGemma's ``generation_config.json`` says of its sampler."""

from __future__ import annotations

from unmask.models.config import Config

# What ``unmask.resolve`` takes where the file is silent.
_COMMON_T_MIN, _COMMON_T_MAX = 0.4, 0.8


def renoise_defaults(generation: Config) -> dict[str, float | int | str | bool]:
    """The parameters of a request that ``generation`` has values for.

    Raises ``InvalidCheckpointError`` naming a key we cannot honour.
    """
    defaults: dict[str, float | int | str | bool] = {}
    if generation.get("sampler_config"):
        sampler = generation.object("sampler_config")
        sampler.refuse_other_than({"_cls_name": "EntropyBoundSamplerConfig"})
        if sampler.get("entropy_bound") is not None:
            defaults["entropy_bound"] = sampler.number("entropy_bound")
    for name in ("t_min", "t_max", "confidence_threshold"):
        if generation.get(name) is not None:
            defaults[name] = generation.number(name)
    for name, key in (("steps", "max_denoising_steps"), ("stability_threshold", "stability_threshold")):
        if generation.get(key) is not None:
            defaults[name] = generation.integer(key, least=0)
    t_min, t_max = defaults.get("t_min", _COMMON_T_MIN), defaults.get("t_max", _COMMON_T_MAX)
    if float(t_min) > float(t_max):
        raise generation.fault(f"'t_min' {t_min} is above 't_max' {t_max}")
    return defaults

"""What DiffusionGemma's ``generation_config.json`` says of its sampler."""

from __future__ import annotations

from unmask.models.config import Config

# What ``unmask.resolve`` takes where the file is silent.
_COMMON_T_MIN, _COMMON_T_MAX = 0.4, 0.8
# The most that a request may ask for, and the least temperature.
_MOST = {
    "entropy_bound": 1e6,
    "t_min": 100.0,
    "t_max": 100.0,
    "confidence_threshold": 1e6,
    "max_denoising_steps": 1024,
    "stability_threshold": 1024,
}
_LEAST_TEMPERATURE = 1e-3


def renoise_defaults(generation: Config) -> dict[str, float | int | str | bool]:
    """The parameters of a request that ``generation`` has values for.

    Raises ``InvalidCheckpointError`` naming a key we cannot honour.
    """
    defaults: dict[str, float | int | str | bool] = {}
    if generation.get("sampler_config"):
        sampler = generation.object("sampler_config")
        sampler.refuse_other_than({"_cls_name": "EntropyBoundSamplerConfig"})
        if sampler.get("entropy_bound") is not None:
            defaults["entropy_bound"] = _bounded(sampler, "entropy_bound", sampler.number("entropy_bound"))
    for name in ("t_min", "t_max", "confidence_threshold"):
        if generation.get(name) is not None:
            least = 0.0 if name == "confidence_threshold" else _LEAST_TEMPERATURE
            defaults[name] = _bounded(generation, name, generation.number(name), least)
    for name, key, least in (("steps", "max_denoising_steps", 1), ("stability_threshold", "stability_threshold", 0)):
        if generation.get(key) is not None:
            defaults[name] = int(_bounded(generation, key, generation.integer(key, least=least)))
    t_min, t_max = defaults.get("t_min", _COMMON_T_MIN), defaults.get("t_max", _COMMON_T_MAX)
    if float(t_min) > float(t_max):
        raise generation.fault(f"'t_min' {t_min} is above 't_max' {t_max}")
    return defaults


def _bounded(config: Config, key: str, value: float, least: float = 0.0) -> float:
    """``value``, which must be what a request may ask for: nothing is brought into the range in silence."""
    if not least <= value <= _MOST[key]:
        raise config.fault(f"'{key}' is {value:g}; Unmask takes {least:g} to {_MOST[key]:g}")
    return value

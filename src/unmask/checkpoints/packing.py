"""How the weights of a model directory are packed, by its ``config.json``."""

from __future__ import annotations

from typing import Any, NamedTuple

from unmask.shown import printable, shown

_LONGEST_METHOD = 50


class Packing(NamedTuple):
    """A ``method`` ("awq", "gptq", "fp8", "mlx", ...) and the ``key`` of ``config.json`` that says so."""

    method: str
    key: str


def packing_of_config(config: dict[str, Any]) -> Packing | None:
    """``None`` if the weights are plain numbers. MLX writes a key of its own, and newer versions the usual one too."""
    if config.get("quantization"):
        return Packing("mlx", "quantization")
    packed = config.get("quantization_config")
    if not packed:
        return None
    method = packed.get("quant_method") if isinstance(packed, dict) else packed
    named = printable(method) if isinstance(method, str) and len(method) <= _LONGEST_METHOD else shown(method)
    return Packing(named, "quantization_config")

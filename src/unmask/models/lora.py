"""LoRA adapters in the PEFT file format, merged into the weights as they are read: W + scale * (B @ A)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.checkpoints.directory import read_json
from unmask.checkpoints.weights import WeightReader
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.models.config import integer, number, refuse_other_values

_CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
_ASSUMED: dict[str, Any] = {
    "peft_type": "LORA",
    "bias": "none",
    "use_dora": False,
    "fan_in_fan_out": False,
    "modules_to_save": None,
    "rank_pattern": {},
    "alpha_pattern": {},
}


class LoraAdapter:
    """An adapter directory (``adapter_config.json``, ``adapter_model.safetensors``), held in float32."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise CheckpointNotFoundError(f"There is no adapter directory at '{path}'.", hint="Check the path.")
        config = read_json(path / _CONFIG)
        refuse_other_values(config, _ASSUMED, file=_CONFIG)
        rank, alpha = integer(config, "r", file=_CONFIG), number(config, "lora_alpha", 1.0, file=_CONFIG)
        self._scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
        self._path = path
        self._unmerged: dict[str, Tensor] = {}
        file = path / "adapter_model.safetensors"
        if not file.is_file():
            raise InvalidCheckpointError(f"'{path}' lacks adapter_model.safetensors.", hint="Copy the adapter again.")
        with WeightReader((file,), dtype=torch.float32, device=torch.device("cpu")) as weights:
            for name in weights:
                self._unmerged[name] = weights.take_any(name)

    def merge(self, name: str, weight: Tensor) -> Tensor:
        """``weight`` (float32) with this adapter's update, if it has one for the tensor ``name``."""
        module = _PREFIX + name.removesuffix(".weight")
        pair = (f"{module}.lora_A.weight", f"{module}.lora_B.weight")
        if not all(half in self._unmerged for half in pair):
            return weight
        down, up = (self._unmerged.pop(half) for half in pair)
        if (up.shape[0], down.shape[1]) != tuple(weight.shape) or up.shape[1] != down.shape[0]:
            raise InvalidCheckpointError(f"The adapter's update of '{name}' does not have the weight's shape.")
        return weight + self._scale * (up @ down)

    def check_used(self) -> None:
        """Raise ``InvalidCheckpointError`` if a tensor of the adapter was merged nowhere: it is for another model, or
        half of its pair is missing.
        """
        if self._unmerged:
            raise InvalidCheckpointError(
                f"'{self._path}' holds '{next(iter(self._unmerged))}', which this model has no weight for.",
                hint="Use the adapter with the base model it was trained on; it needs both halves of every update.",
            )

"""LoRA adapters in the PEFT file format, W + scale * (B @ A): merged into the weights, or kept beside them.

Shape letters as in ``models/linear.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unmask.checkpoints.json_file import read_json
from unmask.checkpoints.weights import WeightReader
from unmask.errors import CheckpointNotFoundError, InvalidCheckpointError
from unmask.models.config import Config
from unmask.models.linear import Linear
from unmask.shown import shown

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_TENSOR = re.compile(r"base_model\.model\.(?P<module>.+)\.lora_(?P<half>[AB])(\.default)?\.weight")
_MERGE_FIRST = "Merge it into its base model with PEFT (merge_and_unload), and serve the result."
# Keys under which an adapter is more than W + scale * (B @ A), with the values under which it is not; null always is.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "peft_type": ("LORA",),
    "bias": ("none",),
    "init_lora_weights": (True, False, "gaussian", "orthogonal", "eva"),  # the others begin by changing the base model
    **dict.fromkeys(
        (
            "use_dora",
            "use_qalora",
            "use_bdlora",
            "lora_bias",
            "fan_in_fan_out",
            "modules_to_save",
            "layer_replication",
            "target_parameters",
            "trainable_token_indices",
            "alora_invocation_tokens",
            "arrow_config",
            "kasa_config",
        ),
        (False, [], {}),
    ),
}


class LoraAdapter:
    """An adapter directory (``adapter_config.json``, ``adapter_model.safetensors``), held in float32.

    It is used once: either ``merge`` every tensor of a model and then ``check_used``, or ``attach`` it.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise CheckpointNotFoundError(f"There is no adapter directory at '{path}'.", hint="Check the path.")
        if not (path / _CONFIG).is_file():
            raise InvalidCheckpointError(f"'{path}' has no {_CONFIG}.", hint="Give an adapter in PEFT's format.")
        self._path = path
        self._config = Config(read_json(path / _CONFIG), _CONFIG)
        _check_plain(self._config)
        halves = _read_halves(path / _WEIGHTS)
        self._unused = {module: self._update(module, halves) for module in sorted({module for module, _ in halves})}

    def merge(self, name: str, weight: Tensor) -> Tensor:
        """``weight`` (float32) with this adapter's update, if it has one for the tensor ``name``."""
        module = name.removesuffix(".weight")
        if module not in self._unused:
            return weight
        down, up = self._take(module, tuple(weight.shape))
        return weight + up @ down

    def attach(self, adapter: int, linears: Iterable[Linear], *, dtype: torch.dtype, device: torch.device) -> None:
        """Keep the updates beside the weights of ``linears``, as those of the adapter of number ``adapter``.

        Raises ``InvalidCheckpointError``, having attached nothing, if an update has the wrong shape or is for none of
        the linears.
        """
        stacked = [(linear, *self._stacked(linear)) for linear in linears if self._concerns(linear)]
        self.check_used(
            " Kept apart from the weights, adapters reach the plain matrices inside layers only, not the head, routers "
            "or experts: merge those."
        )
        for linear, down, up in stacked:
            linear.attach(adapter, down.to(device, dtype), up.to(device, dtype))

    def check_used(self, hint: str = "") -> None:
        """Raise ``InvalidCheckpointError`` if the model had no place for an update: the adapter is for another one."""
        if self._unused:
            raise InvalidCheckpointError(
                f"'{self._path}' updates '{next(iter(self._unused))}', which this model has no place for.",
                hint=f"Use the adapter with the base model it was trained on.{hint}",
            )

    def _concerns(self, linear: Linear) -> bool:
        return any(name in self._unused for name, _ in linear.parts)

    def _stacked(self, linear: Linear) -> tuple[Tensor, Tensor]:
        """One update for all parts of ``linear``: a part without one has rank 0."""
        inputs = linear.weight.shape[1]
        downs, ups = [], []
        for name, size in linear.parts:
            nothing = (torch.empty(0, inputs), torch.empty(size, 0))
            down, up = self._take(name, (size, inputs)) if name in self._unused else nothing
            downs.append(down)
            ups.append(up)
        return torch.cat(downs), torch.block_diag(*ups)  # type: ignore[no-untyped-call]

    def _update(self, module: str, halves: dict[tuple[str, str], Tensor]) -> tuple[Tensor, Tensor]:
        """``down`` [K, I] and ``up`` [O, K] with the scale in it."""
        for half in "AB":
            if (module, half) not in halves:
                raise InvalidCheckpointError(
                    f"{_WEIGHTS} lacks lora_{half} of '{module}'.",
                    hint="An adapter needs both halves of every update; copy it again.",
                )
        down, up = halves[module, "A"], halves[module, "B"]
        rank = _of_module(self._config, "rank_pattern", module, self._config.integer("r"))
        alpha = _of_module(self._config, "alpha_pattern", module, self._config.number("lora_alpha", 8.0))
        if down.dim() != 2 or up.dim() != 2 or not down.shape[0] == up.shape[1] == rank:
            raise InvalidCheckpointError(
                f"{_WEIGHTS}: '{module}' has lora_A {list(down.shape)} and lora_B {list(up.shape)}, but {_CONFIG} "
                f"gives it rank {rank:g}.",
                hint="Do both files come from the same adapter?",
            )
        return down, up * (alpha / (math.sqrt(rank) if self._config.get("use_rslora") else rank))

    def _take(self, module: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        down, up = self._unused.pop(module)
        if (up.shape[0], down.shape[1]) != shape:
            raise InvalidCheckpointError(
                f"'{self._path}' updates '{module}' as a matrix {[up.shape[0], down.shape[1]]}; the model's is "
                f"{list(shape)}.",
                hint="Use the adapter with the base model it was trained on.",
            )
        return down, up


def _check_plain(config: Config) -> None:
    for key, plain in _PLAIN.items():
        value = config.get(key)
        if value is not None and value not in plain:
            raise config.fault(f"Unmask cannot apply '{key}': {shown(value)}", hint=_MERGE_FIRST)


def _read_halves(file: Path) -> dict[tuple[str, str], Tensor]:
    """The float32 tensors of ``file`` by module and half, A or B."""
    if not file.is_file():
        raise InvalidCheckpointError(
            f"'{file.parent}' lacks {file.name}.", hint="Copy the adapter again, or save it anew with a current PEFT."
        )
    halves: dict[tuple[str, str], Tensor] = {}
    with WeightReader((file,), dtype=torch.float32, device=torch.device("cpu")) as weights:
        for name in weights:
            match = _TENSOR.fullmatch(name)
            if match is None:
                raise InvalidCheckpointError(
                    f"{file.name}: '{name}' is no low-rank update of a linear layer.", hint=_MERGE_FIRST
                )
            key = (match["module"], match["half"])
            if key in halves:
                raise InvalidCheckpointError(f"{file.name} holds lora_{key[1]} of '{key[0]}' twice.")
            halves[key] = weights.take_any(name)
    if not halves:
        raise InvalidCheckpointError(f"'{file}' is empty: this adapter would change nothing.")
    return halves


def _of_module(config: Config, pattern: str, module: str, default: float) -> float:
    """What ``config[pattern]`` says for ``module``, by its name or by the end of it; the first that fits counts.

    PEFT takes the keys for regular expressions. Those that really are get refused: matching could take for ever.
    """
    if not config.get(pattern):
        return default
    said = config.object(pattern)
    for key in said.values:
        if not re.fullmatch(r"\^?[\w.]+", key):
            raise said.fault(f"Unmask reads plain module names only, and not {shown(key)}", hint=_MERGE_FIRST)
        if key in ("^" + module, module) or module.endswith("." + key):
            return said.number(key, default)
    return default

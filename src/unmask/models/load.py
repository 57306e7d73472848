"""From a checkpoint on disk to a model ready to run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.weights import Progress, WeightReader
from unmask.errors import InvalidValueError
from unmask.models.diffusion_gemma import DiffusionGemma
from unmask.models.gemma_spec import GemmaShape
from unmask.models.int8 import int8_unavailable
from unmask.models.lora import LoraAdapter
from unmask.models.registry import describe
from unmask.models.transformer import Transformer

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_log = logging.getLogger(__name__)


def load_model(
    model: str,
    *,
    adapter: str | None = None,
    adapters: Mapping[str, str] = MappingProxyType({}),
    attention: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    quantize: str = "none",
    progress: Progress = lambda share: None,
) -> Transformer | DiffusionGemma:
    """Read ``model`` (a directory, or the embedded model's name) with the LoRA directory ``adapter`` merged into it.

    ``adapters``, directories by name, are kept apart instead, for rows that ask for them. ``quantize`` "int8" makes
    matrix products 8 bits wide. ``progress`` gets the share of tensors read. Raises the catalogue's checkpoint errors.
    """
    place = _device(device)
    _check_quantize(quantize, place)
    checkpoint = open_checkpoint(model)
    kind, reason = choose_dtype(dtype, place, _stored_dtype(checkpoint.config))
    _log.info("%s runs in %s: %s.", checkpoint.name, str(kind).removeprefix("torch."), reason)
    spec = describe(checkpoint, attention=attention, adapted=adapter is not None)
    merged = LoraAdapter(Path(adapter)) if adapter is not None else None
    with WeightReader(
        checkpoint.weights, dtype=kind, device=place, progress=progress, patch=merged.merge if merged else None
    ) as weights:
        loaded = DiffusionGemma(spec, weights) if isinstance(spec.shape, GemmaShape) else Transformer(spec, weights)
    if merged is not None:
        merged.check_used()
    for number, (name, path) in enumerate(adapters.items()):
        LoraAdapter(Path(path)).attach(number, loaded.linears(), dtype=kind, device=place)
        loaded.adapters[name] = describe(checkpoint, attention=attention, adapted=True)
    if quantize == "int8":
        for linear in loaded.linears():
            linear.quantize()
    return loaded


def choose_dtype(asked: str, device: torch.device, stored: str) -> tuple[torch.dtype, str]:
    """The type of a model's weights and activations, and why it is that.

    ``asked`` is a dtype's name or "auto", ``stored`` the name of the checkpoint's own dtype; "" if it is unknown.
    Raises ``InvalidValueError`` for a name that is none of ours.
    """
    if asked in _DTYPES:
        return _DTYPES[asked], "it was asked for"
    if asked != "auto":
        raise InvalidValueError(
            f"Unknown dtype {asked!r}.", hint=f"Use one of auto, {', '.join(_DTYPES)}.", param="dtype"
        )
    if device.type != "cuda":
        # Processors without bfloat16 arithmetic take several times as long over it; asking is left to who has it.
        return torch.float32, f"on '{device.type}' it is the safe choice"
    if stored in ("bfloat16", "float16"):
        return torch.bfloat16, f"the checkpoint is {stored}"
    return torch.float32, f"the checkpoint is {stored or 'of unknown type'}"


def _stored_dtype(config: dict[str, Any]) -> str:
    """The dtype that the config names, by its new key or its old one, of the whole model or of its text part."""
    text_config = config.get("text_config")
    for part in (config, text_config if isinstance(text_config, dict) else {}):
        named = part.get("dtype", part.get("torch_dtype"))
        if isinstance(named, str):
            return named.removeprefix("torch.")
    return ""


def _check_quantize(quantize: str, device: torch.device) -> None:
    if quantize not in ("none", "int8"):
        raise InvalidValueError(f"Unknown quantize {quantize!r}.", hint="Use 'none' or 'int8'.", param="quantize")
    reason = int8_unavailable(device) if quantize == "int8" else None
    if reason is not None:
        raise InvalidValueError(reason, hint="Use 'none'.", param="quantize")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InvalidValueError(f"Device '{name}' cannot be used: {error}", param="device") from None

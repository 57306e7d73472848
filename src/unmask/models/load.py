"""From a checkpoint on disk to a model ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from unmask.checkpoints.directory import Checkpoint, open_checkpoint
from unmask.checkpoints.gguf_weights import GgufReader
from unmask.checkpoints.weights import Progress, TensorReader, WeightReader
from unmask.errors import InvalidValueError
from unmask.models.base import Model
from unmask.models.diffusion_gemma import DiffusionGemma
from unmask.models.gemma_spec import GemmaShape
from unmask.models.gguf_places import places
from unmask.models.lora import LoraAdapter
from unmask.models.precision import choose_precision
from unmask.models.registry import describe
from unmask.models.spec import ModelSpec
from unmask.models.transformer import Transformer


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
) -> Model:
    """Read ``model`` (as ``open_checkpoint`` takes it) with the LoRA directory ``adapter`` merged into it.

    ``adapters``, directories by name, are kept apart instead, for rows that ask for them. ``quantize`` "int8" makes
    matrix products 8 bits wide where the processor can. ``progress`` gets the share of tensors read. Raises the
    catalogue's checkpoint errors.
    """
    place = _device(device)
    checkpoint = open_checkpoint(model)
    precision = choose_precision(dtype, quantize, place, checkpoint)
    spec = describe(checkpoint, attention=attention, adapted=adapter is not None)
    merged = LoraAdapter(Path(adapter)) if adapter is not None else None
    how = {"dtype": precision.dtype, "device": place, "progress": progress, "patch": merged.merge if merged else None}
    with _reader(checkpoint, spec, **how) as weights:
        loaded = DiffusionGemma(spec, weights) if isinstance(spec.shape, GemmaShape) else Transformer(spec, weights)
    loaded.precision = str(precision)
    if merged is not None:
        merged.check_used()
    for number, (name, path) in enumerate(adapters.items()):
        LoraAdapter(Path(path)).attach(number, loaded.linears(), dtype=precision.dtype, device=place)
        loaded.adapters[name] = describe(checkpoint, attention=attention, adapted=True)
    if precision.int8:
        loaded.quantize()
    return loaded


def _reader(checkpoint: Checkpoint, spec: ModelSpec, **how: Any) -> TensorReader:
    if checkpoint.header is None:
        return WeightReader(checkpoint.weights, **how)
    return GgufReader(checkpoint.header, places(checkpoint.header, spec), **how)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InvalidValueError(f"Device '{name}' cannot be used: {error}", param="device") from None

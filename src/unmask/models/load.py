"""From a checkpoint on disk to a model ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch

from unmask.checkpoints.directory import Checkpoint, open_checkpoint
from unmask.checkpoints.gguf_header import GgufHeader
from unmask.checkpoints.gguf_weights import GgufReader, Place
from unmask.checkpoints.weights import Patch, Progress, TensorReader, WeightReader
from unmask.models.base import Model
from unmask.models.device import choose_device
from unmask.models.diffusion_gemma import DiffusionGemma
from unmask.models.gemma_places import gemma_places
from unmask.models.gemma_spec import GemmaShape
from unmask.models.gguf_places import transformer_places
from unmask.models.lora import LoraAdapter
from unmask.models.precision import Precision, choose_precision
from unmask.models.registry import describe
from unmask.models.spec import ModelSpec, Shape, TransformerShape
from unmask.models.transformer import Transformer

Check = Callable[[ModelSpec, Precision, torch.device], None]


class _Kind(NamedTuple):
    """What makes a model of a shape: its class, and where a GGUF file keeps the tensors that the class asks for."""

    model: Callable[[ModelSpec, TensorReader], Model]
    gguf_places: Callable[[GgufHeader, ModelSpec], dict[str, Place]]


_KINDS: dict[type[Shape], _Kind] = {
    TransformerShape: _Kind(Transformer, transformer_places),
    GemmaShape: _Kind(DiffusionGemma, gemma_places),
}


def load_model(
    model: str | Checkpoint,
    *,
    adapter: str | None = None,
    adapters: Mapping[str, str] = MappingProxyType({}),
    attention: str | None = None,
    device: str = "auto",
    dtype: str = "auto",
    quantize: str = "none",
    progress: Progress = lambda share: None,
    check: Check = lambda spec, precision, device: None,
) -> Model:
    """Read ``model`` (opened, or as ``open_checkpoint`` takes it) with the LoRA directory ``adapter`` merged into it.

    ``adapters``, directories by name, are kept apart instead, for rows that ask for them. ``quantize`` "int8" makes
    matrix products 8 bits wide where the processor can. ``progress`` gets the share of tensors read. ``check`` may
    raise before any is. Raises the catalogue's checkpoint errors.
    """
    place = choose_device(device)
    checkpoint = open_checkpoint(model) if isinstance(model, str) else model
    precision = choose_precision(dtype, quantize, place, checkpoint)
    spec = describe(checkpoint, attention=attention, adapted=adapter is not None)
    check(spec, precision, place)
    merged = LoraAdapter(Path(adapter)) if adapter is not None else None
    patch = merged.merge if merged is not None else None
    with _reader(checkpoint, spec, precision.dtype, place, progress, patch) as weights:
        weights.int8 = precision.int8
        loaded = _KINDS[type(spec.shape)].model(spec, weights)
    loaded.precision = str(precision)
    if merged is not None:
        merged.check_used()
    adapted_spec = describe(checkpoint, attention=attention, adapted=True) if adapters else spec
    for number, (name, path) in enumerate(adapters.items()):
        LoraAdapter(Path(path)).attach(number, loaded.linears(), dtype=precision.dtype, device=place)
        loaded.adapters[name] = adapted_spec
    return loaded


def _reader(
    checkpoint: Checkpoint,
    spec: ModelSpec,
    dtype: torch.dtype,
    device: torch.device,
    progress: Progress,
    patch: Patch | None,
) -> TensorReader:
    if checkpoint.header is None:
        return WeightReader(checkpoint.weights, dtype=dtype, device=device, progress=progress, patch=patch)
    places = _KINDS[type(spec.shape)].gguf_places(checkpoint.header, spec)
    return GgufReader(checkpoint.header, places, dtype=dtype, device=device, progress=progress, patch=patch)

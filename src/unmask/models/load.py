"""From a checkpoint on disk to a model ready to run."""

from __future__ import annotations

from pathlib import Path

import torch

from unmask.checkpoints.directory import open_checkpoint
from unmask.checkpoints.weights import Progress, WeightReader
from unmask.errors import InvalidValueError
from unmask.models.lora import LoraAdapter
from unmask.models.registry import describe
from unmask.models.transformer import Transformer

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(
    model: str,
    *,
    adapter: str | None = None,
    attention: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    progress: Progress = lambda share: None,
) -> Transformer:
    """Read ``model`` (a directory, or the embedded model's name), merge ``adapter`` if given.

    ``progress`` gets the share of tensors read. Raises the catalogue's checkpoint errors.
    """
    if dtype not in _DTYPES:
        raise InvalidValueError(f"Unknown dtype {dtype!r}.", hint=f"Use one of {', '.join(_DTYPES)}.", param="dtype")
    checkpoint = open_checkpoint(model)
    spec = describe(checkpoint, attention=attention, adapted=adapter is not None)
    lora = LoraAdapter(Path(adapter)) if adapter is not None else None
    with WeightReader(
        checkpoint.weights,
        dtype=_DTYPES[dtype],
        device=_device(device),
        progress=progress,
        patch=lora.merge if lora else None,
    ) as weights:
        loaded = Transformer(spec, weights)
    if lora is not None:
        lora.check_used()
    return loaded


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise InvalidValueError(f"Device '{name}' cannot be used: {error}", param="device") from None

"""In which number types a model is computed, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.checkpoints.directory import Checkpoint
from unmask.errors import InvalidValueError
from unmask.models.int8 import int8_unavailable
from unmask.shown import shown

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_ALL_F32 = 0  # the ``general.file_type`` of GGUF files without any rounding


@dataclass(frozen=True, slots=True)
class Precision:
    """``dtype`` of weights and activations; ``int8``: weights of linear layers, and their products, have 8 bits."""

    dtype: torch.dtype
    int8: bool
    reason: str

    @property
    def short(self) -> str:
        """For people: the choice."""
        name = str(self.dtype).removeprefix("torch.")
        return f"int8, the rest {name}" if self.int8 else name

    def __str__(self) -> str:
        """For people: the choice and its reason."""
        return f"{self.short} ({self.reason})"


def choose_precision(dtype: str, quantize: str, device: torch.device, checkpoint: Checkpoint) -> Precision:
    """What ``dtype`` ("auto" or a name) and ``quantize`` ("none" or "int8") come to on ``device``.

    Where int8 cannot be had the model stays in floats, and the reason says so. Raises ``InvalidValueError``.
    """
    if quantize not in ("none", "int8"):
        raise InvalidValueError(f"Unknown quantize {shown(quantize)}.", hint="Use 'none' or 'int8'.", param="quantize")
    kind, reason = choose_dtype(dtype, device, _stored_dtype(checkpoint))
    if quantize == "none":
        return Precision(kind, int8=False, reason=reason)
    missing = int8_unavailable(device)
    if missing is not None:
        return Precision(kind, int8=False, reason=f"int8 was asked for, but cannot be had: {missing.rstrip('.')}")
    return Precision(kind, int8=True, reason="it was asked for")


def choose_dtype(asked: str, device: torch.device, stored: str) -> tuple[torch.dtype, str]:
    """The type of a model's weights and activations, and why it is that.

    ``asked`` is a dtype's name or "auto", ``stored`` the name of the checkpoint's own dtype; "" if it is unknown.
    Raises ``InvalidValueError`` for a name that is none of ours.
    """
    if asked in _DTYPES:
        slow = asked != "float32" and device.type == "cpu" and not _computes_bfloat16()
        return _DTYPES[asked], f"it was asked for{', but this processor is several times faster in float32' * slow}"
    if asked != "auto":
        raise InvalidValueError(
            f"Unknown dtype {shown(asked)}.", hint=f"Use one of auto, {', '.join(_DTYPES)}.", param="dtype"
        )
    if device.type != "cuda":
        # Processors without bfloat16 arithmetic take several times as long over it; asking is left to who has it.
        return torch.float32, f"on '{device.type}' it is the safe choice"
    if stored in ("bfloat16", "float16"):
        return torch.bfloat16, f"the checkpoint is {stored}"
    return torch.float32, f"the checkpoint is {stored or 'of unknown type'}"


def _computes_bfloat16() -> bool:
    """Whether the processor has arithmetic for it (AVX-512 BF16, AMX); torch tells on x86 only."""
    return any(
        getattr(torch.cpu, name, lambda: False)() for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    )


def _stored_dtype(checkpoint: Checkpoint) -> str:
    """The dtype that the config names, by its new key or its old one, of the whole model or of its text part.

    A GGUF file counts as one of 16 bits unless nothing in it was rounded.
    """
    if checkpoint.header is not None:
        return "float32" if checkpoint.header.metadata.get("general.file_type") == _ALL_F32 else "bfloat16"
    text_config = checkpoint.config.get("text_config")
    for part in (checkpoint.config, text_config if isinstance(text_config, dict) else {}):
        named = part.get("dtype", part.get("torch_dtype"))
        if isinstance(named, str):
            return named.removeprefix("torch.")
    return ""

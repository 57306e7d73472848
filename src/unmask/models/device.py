"""On which device a model is computed, or why it cannot be there and where it can."""

from __future__ import annotations

import re

import torch

from unmask.errors import InvalidValueError
from unmask.shown import shown

_CPU = "Use cpu (--device cpu)."


def choose_device(name: str) -> torch.device:
    """The device ``name``; "auto" is a CUDA GPU if there is one. Raises ``InvalidValueError`` with what to do."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, number = _parsed(name)
    hint = _obstacle(kind, number)
    if hint is not None:
        raise InvalidValueError(f"Device '{name}' cannot be used.", hint=hint, param="device")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidValueError(f"Device '{name}' cannot be used: {reason}", hint=_CPU, param="device") from None


def _parsed(name: str) -> tuple[str, int]:
    """Kind and number of the device: ``cuda:1`` is ("cuda", 1). Raises ``InvalidValueError`` for any other kind."""
    match = re.fullmatch(r"(cpu|mps|cuda|xpu)(?::([0-9]{1,3}))?", name)
    if match is None or (match[2] and match[1] in ("cpu", "mps")):
        raise InvalidValueError(
            f"{shown(name)} is no device to run a model on.", hint="Use auto, cpu, cuda or cuda:1, say.", param="device"
        )
    return match[1], int(match[2] or 0)


def _obstacle(kind: str, number: int) -> str | None:
    """What to do, if a device of this ``kind`` and ``number`` is not there; None if nothing is known against it."""
    if kind == "cpu":
        return None
    if kind == "mps":
        return f"Scores are computed in float64, which Apple's GPUs do not have. {_CPU}"
    accelerator = torch.cuda if kind == "cuda" else torch.xpu
    if not accelerator.is_available():
        built = f"Is torch {torch.__version__} built for {kind}, and its driver installed?"
        return f"No {kind} device is found. {built} {_CPU}"
    count = accelerator.device_count()
    return None if number < count else f"There are {count}, numbered from 0."

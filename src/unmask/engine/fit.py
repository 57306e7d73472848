"""Whether a model and its key/value cache fit into memory, told from headers before anything is read."""

from __future__ import annotations

import math

import torch

from unmask.checkpoints.directory import Checkpoint
from unmask.checkpoints.safetensors_header import read_safetensors_headers
from unmask.engine.memory import available_bytes
from unmask.engine.options import EngineOptions
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.errors import InsufficientMemoryError
from unmask.models.diffusion_gemma import UNREAD
from unmask.models.info import context_length
from unmask.models.precision import Precision
from unmask.models.spec import ModelSpec

_CONTEXTS = 2  # so many whole contexts the cache must hold


def check_fit(
    options: EngineOptions, checkpoint: Checkpoint, spec: ModelSpec, precision: Precision, device: torch.device
) -> None:
    """Raise ``InsufficientMemoryError`` if weights and the smallest cache do not fit into what ``device`` has left.

    Activations, logits and adapters come on top. Where free memory cannot be told, nothing is checked.
    """
    available = available_bytes(device)
    if available is None:
        return
    size = precision.dtype.itemsize
    numbers = _weights(checkpoint, spec)
    context = context_length(spec, options.max_context)
    tokens = options.kv_tokens or _CONTEXTS * pages_for(context) * PAGE_TOKENS
    position = spec.shape.cache_width * size
    # Weights that become int8 are floats first; the cache is made after that.
    weights, left = numbers * size, numbers * (1 if precision.int8 else size)
    needed = max(weights, left + tokens * position)
    if needed > available:
        raise InsufficientMemoryError(
            f"{checkpoint.name} needs {_gib(needed)} of memory, {_gib(weights)} for weights in "
            f"{str(precision.dtype).removeprefix('torch.')} and {_gib(tokens * position)} for keys and values of "
            f"{tokens} tokens; '{device}' has {_gib(available)} left.",
            hint=_remedy(options, precision.dtype, weights, needed, (available - left) // position, available),
            param=None if weights > available else "kv_tokens" if options.kv_tokens else "max_context",
        )


def _remedy(options: EngineOptions, dtype: torch.dtype, weights: int, needed: int, fitting: int, available: int) -> str:
    """What helps, if anything does, given that ``fitting`` positions fit beside the ``weights``."""
    pages, remedies = fitting // PAGE_TOKENS, []
    if weights <= available and pages >= _CONTEXTS:
        if options.kv_tokens:
            remedies.append(f"at most {pages * PAGE_TOKENS} kv_tokens (--kv-tokens)")
        else:
            remedies.append(f"a max_context (--max-context) of at most {pages // _CONTEXTS * PAGE_TOKENS}")
    if dtype is torch.float32 and weights // 2 < available:
        less = "" if needed // 2 <= available else " and a smaller context"
        remedies.append(f"dtype bfloat16 (--dtype){less}")
    if not remedies:
        return "Free memory, or take a machine that has more, or a smaller model."
    return f"Take {' or '.join(remedies)}."


def _weights(checkpoint: Checkpoint, spec: ModelSpec) -> int:
    """How many numbers are read of ``checkpoint``."""
    if checkpoint.header is not None:
        return sum(math.prod(tensor.shape) for tensor in checkpoint.header.tensors.values())
    skipped = UNREAD if spec.names is None else ()
    tensors = read_safetensors_headers(checkpoint.weights)
    return sum(math.prod(tensor.shape) for name, tensor in tensors.items() if not name.startswith(skipped))


def _gib(count: int) -> str:
    size = count / 2**30
    return f"{size:,.0f} GiB" if size >= 100 else f"{size:.3g} GiB"

"""Whether a model and its key/value cache fit into memory, told from headers before anything is read."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unmask.checkpoints.directory import Checkpoint
from unmask.engine.footprint import LEAST_CONTEXTS
from unmask.engine.free_memory import host_bytes
from unmask.engine.options import EngineOptions
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.errors import InsufficientMemoryError
from unmask.models.info import context_length
from unmask.models.int8 import int8_unavailable
from unmask.models.precision import Precision
from unmask.models.spec import ModelSpec
from unmask.models.weight_bytes import weight_bytes, weight_shapes


def available_bytes(device: torch.device) -> int | None:
    """Bytes that may be taken on ``device``; None where that cannot be told."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return host_bytes() if device.type == "cpu" else None


@dataclass(frozen=True, slots=True)
class _Need:
    """Bytes of a model's ``weights``, and of the ``cache`` for ``tokens``."""

    weights: int
    cache: int
    tokens: int

    @property
    def total(self) -> int:
        return self.weights + self.cache


def check_fit(
    options: EngineOptions, checkpoint: Checkpoint, spec: ModelSpec, precision: Precision, device: torch.device
) -> None:
    """Raise ``InsufficientMemoryError`` if weights and the smallest cache do not fit into what ``device`` has left.

    Activations, logits and adapters come on top. Where free memory cannot be told, nothing is checked.
    """
    available = available_bytes(device)
    if available is None:
        return
    shapes = dict(weight_shapes(checkpoint, spec))
    tokens = options.kv_tokens or LEAST_CONTEXTS * pages_for(context_length(spec, options.max_context)) * PAGE_TOKENS

    def need(dtype: torch.dtype, int8: bool) -> _Need:
        cache = tokens * spec.shape.cache_width * dtype.itemsize
        return _Need(weight_bytes(shapes, dtype.itemsize, int8), cache, tokens)

    ours = need(precision.dtype, precision.int8)
    if ours.total <= available:
        return
    remedies = [_less_cache(options, ours, available)]
    if not precision.int8 and int8_unavailable(device) is None:
        remedies.append(_other("quantize int8 (--quantize)", need(precision.dtype, int8=True), available))
    if precision.dtype is torch.float32:
        remedies.append(_other("dtype bfloat16 (--dtype)", need(torch.bfloat16, precision.int8), available))
    helpful = " or ".join(filter(None, remedies))
    raise InsufficientMemoryError(
        f"{checkpoint.name} needs {_gib(ours.total)} of memory, {_gib(ours.weights)} for weights in {precision.short} "
        f"and {_gib(ours.cache)} for keys and values of {tokens} tokens; '{device}' has {_gib(available)} left.",
        hint=f"Take {helpful}." if helpful else "Free memory, or take a machine that has more, or a smaller model.",
        param=None if ours.weights > available else "kv_tokens" if options.kv_tokens else "max_context",
    )


def _less_cache(options: EngineOptions, ours: _Need, available: int) -> str:
    """How many tokens' keys and values do fit; nothing if too few do."""
    pages = (available - ours.weights) * ours.tokens // ours.cache // PAGE_TOKENS
    if pages < LEAST_CONTEXTS:
        return ""
    if options.kv_tokens:
        return f"at most {pages * PAGE_TOKENS} kv_tokens (--kv-tokens)"
    return f"a max_context (--max-context) of at most {pages // LEAST_CONTEXTS * PAGE_TOKENS}"


def _other(words: str, need: _Need, available: int) -> str:
    """``words``, if what they name would fit, be it with a smaller cache."""
    if need.weights >= available:
        return ""
    return words if need.total <= available else f"{words} with a smaller context"


def _gib(count: int) -> str:
    size = count / 2**30
    return f"{size:,.0f} GiB" if size >= 100 else f"{size:.3g} GiB"

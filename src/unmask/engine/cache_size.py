"""How many key/value pages an engine has."""

from __future__ import annotations

import torch

from unmask.engine.footprint import CPU_CACHE_BYTES, LEAST_CONTEXTS, pages_within
from unmask.engine.options import EngineOptions
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.errors import InvalidValueError
from unmask.models.base import Model

_CUDA_SHARE = 0.8  # of what the weights leave free; the rest is for activations and logits


def cache_pages(options: EngineOptions, model: Model, context_length: int) -> int:
    """Pages for ``max_running`` whole contexts, or for what memory allows; at least for ``LEAST_CONTEXTS``.

    Raises ``InvalidValueError`` if fewer were asked for.
    """
    least = LEAST_CONTEXTS * pages_for(context_length)
    if options.kv_tokens:
        if options.kv_tokens // PAGE_TOKENS < least:
            raise InvalidValueError(
                f"{options.kv_tokens} key/value tokens do not hold two contexts of {context_length}.",
                hint=f"Give at least {least * PAGE_TOKENS}, or a smaller context (max_context).",
                param="kv_tokens",
            )
        return options.kv_tokens // PAGE_TOKENS
    page_bytes = max(model.token_bytes * PAGE_TOKENS, 1)
    return pages_within(options, context_length, page_bytes, _cache_bytes(model.device))


def _cache_bytes(device: torch.device) -> int:
    return int(torch.cuda.mem_get_info(device)[0] * _CUDA_SHARE) if device.type == "cuda" else CPU_CACHE_BYTES

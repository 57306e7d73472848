"""Unmask: a serving engine for diffusion language models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.api import LLM, AsyncLLM
    from unmask.engine.completion import Completion
    from unmask.engine.options import EngineOptions
    from unmask.engine.text import TextDelta
    from unmask.errors import UnmaskError
    from unmask.events import TokenLogprob
    from unmask.logits_workers import LogitsWorkers
    from unmask.params import GenerationParams
    from unmask.service_class import ServiceClass

__all__ = [
    "LLM",
    "AsyncLLM",
    "Completion",
    "EngineOptions",
    "GenerationParams",
    "LogitsWorkers",
    "ServiceClass",
    "TextDelta",
    "TokenLogprob",
    "UnmaskError",
    "__version__",
]
__version__ = "0.1.0"

_HOMES = {
    "LLM": "unmask.api",
    "AsyncLLM": "unmask.api",
    "Completion": "unmask.engine.completion",
    "EngineOptions": "unmask.engine.options",
    "GenerationParams": "unmask.params",
    "LogitsWorkers": "unmask.logits_workers",
    "ServiceClass": "unmask.service_class",
    "TextDelta": "unmask.engine.text",
    "TokenLogprob": "unmask.events",
    "UnmaskError": "unmask.errors",
}


def __getattr__(name: str) -> Any:
    """Import the API on first use: ``import unmask`` alone does not load torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")

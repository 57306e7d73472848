"""Unmask: a serving engine for diffusion language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask.api import LLM, AsyncLLM, Completion
    from unmask.params import GenerationParams

__all__ = ["LLM", "AsyncLLM", "Completion", "GenerationParams", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import the API on first use: ``import unmask`` alone does not load torch."""
    if name in ("LLM", "AsyncLLM", "Completion"):
        from unmask import api

        return getattr(api, name)
    if name == "GenerationParams":
        from unmask.params import GenerationParams

        return GenerationParams
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")

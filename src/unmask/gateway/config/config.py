"""What a configuration file says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from unmask.gateway.config.budget import MemoryBudget
from unmask.gateway.config.wanted import WantedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """``Config()`` is that of a server without a file; paths are absolute.

    ``path``: the file. ``models``: those that it names, in its order. ``models_dir``: a folder all of whose models are
    served too. ``memory_budget``, ``max_models``: what loaded models may take together, and how many may be loaded;
    None is no limit of one's own. ``idle_seconds``, ``load_timeout``: as in ``WantedModel``, for models that say
    nothing. ``log_dir``: where engines that run as children write their logs.
    ``session_store``: bytes that conversations of models that are not loaded may take on disk; None says nothing.
    """

    path: Path | None = None
    models: tuple[WantedModel, ...] = ()
    models_dir: Path | None = None
    memory_budget: MemoryBudget | None = None
    max_models: int | None = None
    idle_seconds: float | None = None
    load_timeout: float | None = None
    log_dir: Path | None = None
    session_store: int | None = None

"""From what a server is started with to its house of models."""

from __future__ import annotations

from unmask.checkpoints.directory import open_checkpoint
from unmask.engine.options import EngineOptions
from unmask.models.card import inspect_model
from unmask.serving.entry import Stay
from unmask.serving.house import House
from unmask.serving.native_entry import NativeEntry
from unmask.serving.settings import ServerSettings


def open_house(options: EngineOptions, settings: ServerSettings) -> House:
    """The house of one model, which stays loaded. Raises what ``open_checkpoint`` and ``describe`` raise."""
    checkpoint = open_checkpoint(options.model)
    entry = NativeEntry(
        settings.served_name or checkpoint.name,
        options,
        checkpoint,
        inspect_model(options.model),
        max_waiting=settings.max_waiting,
        timeouts=settings.timeouts,
        stay=Stay(pinned=True),
    )
    return House([entry])

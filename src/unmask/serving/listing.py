"""A model that requests may name, loaded or not, as catalogues tell of it."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.gateway.canary.verdict import CanaryVerdict
from unmask.params import ModelInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is known of the model called ``name``. ``info`` is there for models of our own engine.

    ``created``: when it was first served here, in seconds since 1970. ``parent``: the model that an adapter makes it
    of. ``context_length`` in tokens, ``size`` of its weights in bytes; 0 where that is not known. ``template``: its
    chat template, "" without one. ``capabilities`` in Ollama's words. ``canary``: the verdict on what it
    said to a few prompts, if it was asked.
    """

    name: str
    created: int
    lane: str
    paradigm: str
    family: str
    parent: str | None = None
    context_length: int = 0
    parameters: int = 0
    size: int = 0
    precision: str = ""
    template: str = ""
    capabilities: tuple[str, ...] = ("completion",)
    info: ModelInfo | None = None
    canary: CanaryVerdict | None = None

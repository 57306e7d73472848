"""A lane: an engine that can serve models, and which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unmask.checkpoints.paradigm import Paradigm

LaneKind = Literal["unmask", "llama.cpp", "logits_worker", "sglang", "vllm", "remote"]
Format = Literal["safetensors", "gguf"]

PACKAGE = "llama.cpp"  # the name of the lane that the package xllamacpp is


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What an engine advertises. ``name`` is unique among the lanes that are known together.

    ``architectures`` are GGUF's names or Hugging Face's classes, by the paradigm as which this engine serves them: one
    that stands under "autoregressive" alone is never served as a diffusion model. ``missing`` says why the engine
    cannot be used here now, '' if it can; ``remedy`` what to do about that. ``mark`` tells this build of the engine
    from others of the same name; '' if nothing does.
    """

    name: str
    kind: LaneKind
    formats: frozenset[Format]
    architectures: Mapping[Paradigm, frozenset[str]]
    missing: str = ""
    remedy: str = ""
    mark: str = ""

    def advertises(self, paradigm: Paradigm, architecture: str | None) -> bool:
        """Whether this engine serves ``architecture`` as ``paradigm``."""
        return architecture in self.architectures.get(paradigm, frozenset())

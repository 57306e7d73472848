"""What an engine is started with."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from unmask.errors import InvalidValueError
from unmask.logits_workers import LogitsWorkers
from unmask.params import OWN_LANE
from unmask.service_class import ServiceClass
from unmask.shown import shown

# Fewer than torch knows: ``meta``, for one, holds nothing.
DEVICES = r"auto|cpu|mps|(cuda|xpu)(:\d+)?"

_NAME = r"[A-Za-z0-9._-]{1,64}"
_RANGES = (
    ("max_running", 1, 4096),
    ("max_rows", 1, 2**24),
    ("draft_rows", 0, 2**24),
    ("kv_tokens", 0, 2**34),
    ("max_context", 0, 2**31),
    ("threads", 0, 1024),
)
# What is said of weights that this process reads, and what it is if nothing is said.
_OF_WEIGHTS: dict[str, Any] = {
    "adapter": None,
    "adapters": {},
    "attention": None,
    "dtype": "auto",
    "quantize": "none",
    "batch_invariant": False,
}
_TEXT, _TEXT_OR_NONE = ((str,), "a text"), ((str, type(None)), "a text or None")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "model": ((str, os.PathLike), "a text or a path"),
    "adapter": _TEXT_OR_NONE,
    "adapters": ((dict,), "a dict of directories by name"),
    "device": _TEXT,
    "dtype": _TEXT,
    "quantize": _TEXT,
    "attention": _TEXT_OR_NONE,
    "step_log": _TEXT_OR_NONE,
    "logits_workers": ((LogitsWorkers, type(None)), "LogitsWorkers or None"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which model, on which device, within which limits.

    ``max_running``: requests that share a step. ``max_rows``: positions through the model in one step.
    ``draft_rows``: positions up to which a step is filled with the drafts of requests that look ahead.
    ``kv_tokens``: capacity of the key/value pages in tokens, two whole contexts at least; 0 derives it from
    ``max_running``, the context and the memory of the device. ``max_context``: prompt and canvas tokens of a request;
    0 takes the model's own limit. ``prefix_cache``: whether requests may use the keys and values that others have
    computed for the same tokens, where they are exact. ``threads``: CPU threads of a forward; 0 takes all cores but one
    in an engine process, and leaves it to torch in this one. ``adapter``: a LoRA directory merged at load.
    ``adapters``: directories by name of those kept apart, for requests to choose from. ``attention``: "full" or
    "block_causal"; None takes what the checkpoint says. ``dtype``: "auto" is float32 on CPUs, and what the checkpoint
    stores on GPUs. ``quantize``: "int8" computes matrix products in 8 bits, on CPUs. ``batch_invariant``: what a
    request computes is the same, bit for bit, whatever shares its steps, which takes longer. ``service_classes`` by
    name are those that requests may choose. ``step_log``: a file to which what each step held and took is written.
    ``logits_workers``: the programs that compute the model instead; then it has no adapters, and its numbers are their
    affair.
    """

    model: str
    adapter: str | None = None
    adapters: dict[str, str] = field(default_factory=dict)
    device: str = "auto"
    dtype: str = "auto"
    quantize: str = "none"
    batch_invariant: bool = False
    attention: str | None = None
    max_running: int = 32
    max_rows: int = 4096
    draft_rows: int = 512
    kv_tokens: int = 0
    max_context: int = 0
    prefix_cache: bool = True
    threads: int = 0
    service_classes: dict[str, ServiceClass] = field(default_factory=dict)
    step_log: str | None = None
    logits_workers: LogitsWorkers | None = None

    def __post_init__(self) -> None:
        """Raises ``InvalidValueError`` naming an option that is out of range, or nothing of its kind."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise InvalidValueError(
                    f"'{name}' is {shown(value)}; it must be an integer from {low} to {high}.", param=name
                )
        for name, (kinds, words) in _KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, kinds):
                raise InvalidValueError(f"'{name}' is {shown(value)}; it must be {words}.", param=name)
        for name in self.adapters:
            if not isinstance(name, str) or re.fullmatch(_NAME, name) is None:
                raise InvalidValueError(
                    f"{shown(name)} is no name for an adapter.",
                    hint="Use letters, digits, '.', '_' and '-'.",
                    param="adapters",
                )

        if self.logits_workers is not None:
            self._check_elsewhere()
        for name, service_class in self.service_classes.items():
            if re.fullmatch(_NAME, name) is None or not service_class.valid:
                raise InvalidValueError(
                    f"{name!r} ({service_class.floor:g} at {service_class.relaxes_at:g}) is no service class.",
                    hint="A name has letters, digits, '.', '_' and '-'; a floor is 0 to 1, a load 0 to below 1.",
                    param="service_classes",
                )

    def _check_elsewhere(self) -> None:
        for name, unsaid in _OF_WEIGHTS.items():
            if getattr(self, name) != unsaid:
                raise InvalidValueError(
                    f"'{name}' has no effect on a model that another program computes.",
                    hint="Leave it out, or have the model served by Unmask's own engine.",
                    param=name,
                )

    def computed_by(self, workers: LogitsWorkers) -> EngineOptions:
        """The same for a model that ``workers`` compute, without what is said of weights that this process reads."""
        return replace(self, **_OF_WEIGHTS, logits_workers=workers)

    def as_environment(self) -> dict[str, str]:
        """The options as the environment variable that the worker process reads."""
        return {"UNMASK_ENGINE_OPTIONS": msgspec.json.encode(self).decode()}

    @property
    def lane(self) -> str:
        """What the engine is called among all that serve models."""
        return OWN_LANE if self.logits_workers is None else self.logits_workers.lane

    @classmethod
    def from_environment(cls) -> EngineOptions:
        """The options that ``as_environment`` wrote."""
        return msgspec.json.decode(os.environ["UNMASK_ENGINE_OPTIONS"], type=EngineOptions)

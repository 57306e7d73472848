"""What an engine is started with."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

import msgspec

from unmask.errors import InvalidValueError

_ADAPTER_NAME = r"[A-Za-z0-9._-]{1,64}"
_RANGES = (
    ("max_running", 1, 4096),
    ("max_rows", 1, 2**24),
    ("draft_rows", 0, 2**24),
    ("kv_tokens", 0, 2**34),
    ("max_context", 0, 2**31),
    ("threads", 0, 1024),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Which model, on which device, within which limits.

    ``max_running``: requests that share a step. ``max_rows``: positions through the model in one step.
    ``draft_rows``: positions up to which a step is filled with the drafts of requests that look ahead.
    ``kv_tokens``: capacity of the key/value pages in tokens, two whole contexts at least; 0 derives it from
    ``max_running``, the context and the memory of the device. ``max_context``: prompt and canvas tokens of a request;
    0 takes the model's own limit. ``threads``: CPU threads of a forward; 0 takes all cores but one in an engine
    process, and leaves it to torch in this one. ``adapter``: a LoRA directory merged at load. ``adapters``: directories
    by name of those kept apart, for requests to choose from. ``attention``: "full" or "block_causal"; None takes what
    the checkpoint says. ``dtype``: "auto" is float32 on CPUs, and what the checkpoint stores on GPUs. ``quantize``:
    "int8" computes matrix products in 8 bits, on CPUs.
    """

    model: str
    adapter: str | None = None
    adapters: dict[str, str] = field(default_factory=dict)
    device: str = "auto"
    dtype: str = "auto"
    quantize: str = "none"
    attention: str | None = None
    max_running: int = 32
    max_rows: int = 4096
    draft_rows: int = 512
    kv_tokens: int = 0
    max_context: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        """Raises ``InvalidValueError`` naming an option out of range."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidValueError(f"'{name}' is {value}; it must be {low} to {high}.", param=name)
        for name in self.adapters:
            if re.fullmatch(_ADAPTER_NAME, name) is None:
                raise InvalidValueError(
                    f"{name!r} is no name for an adapter.",
                    hint="Use letters, digits, '.', '_' and '-'.",
                    param="adapters",
                )

    def as_environment(self) -> dict[str, str]:
        """The options as the environment variable that the worker process reads."""
        return {"UNMASK_ENGINE_OPTIONS": msgspec.json.encode(self).decode()}

    @classmethod
    def from_environment(cls) -> EngineOptions:
        """The options that ``as_environment`` wrote."""
        return msgspec.json.decode(os.environ["UNMASK_ENGINE_OPTIONS"], type=EngineOptions)

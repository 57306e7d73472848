"""One model that may be asked for: under which names, from where, on which terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from unmask.checkpoints.paradigm import Paradigm
from unmask.engine.options import EngineOptions
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.params import GenerationParams

NOTHING_SAID = GenerationParams()


@dataclass(frozen=True, slots=True)
class LocalSource:
    """What ``find_checkpoint`` takes: the path of a file or directory, a hub id, or the embedded model's name."""

    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSource:
    """A server elsewhere that speaks OpenAI's API: its base ``url``, up to ``/v1``, and the ``model``'s name there.

    ``api_key_env`` names the environment variable that holds its key, None if it wants none. ``diffusing``: it answers
    ``diffusing`` with snapshots, as Mercury does; its models are then taken for diffusion models. ``paradigm``: what
    kind of model it is, as far as is known.
    """

    url: str
    model: str
    api_key_env: str | None = None
    diffusing: bool = False
    paradigm: Paradigm = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedModel:
    """A model as the server is told of it; nothing of it has been read yet.

    ``name`` and ``aliases`` are unique among all entries, and so are ``NAME:ADAPTER`` for the adapters of ``lora``
    (directories by name, our own engine only). ``origin`` says where the entry comes from, for messages. ``named``: it
    stands on the command line, so that a server without it is none.

    ``lane`` names the one engine that may take it; None lets ``route`` decide. ``idle_seconds``: how long it stays in
    memory without users, None for as long as there is room. ``pinned``: it is not evicted for others. ``preload``: it
    is loaded as the server starts. ``load_timeout``: seconds that loading may take, None for what is usual on its lane.
    ``stall_timeout``: seconds without any progress after which an answer of another engine than ours is given up.
    ``canary``: whether it is asked a question once it is loaded, to tell an engine that writes garbage; None does what
    is usual on its lane.
    ``defaults``: what ``filled`` gives requests that say nothing.

    ``context``: tokens of one request, prompt and answer together; ``threads``: of a forward. None is the engine's own
    default. ``slots`` (requests that run at once) and ``gpu_layers`` are llama.cpp's. ``engine_args``: words of the
    command line for a program that a user made known, beside those that Unmask gives it. ``engine`` has options of our
    own engine as ``EngineOptions`` names them.
    """

    name: str
    source: LocalSource | RemoteSource
    aliases: tuple[str, ...] = ()
    origin: str = ""
    named: bool = False
    lane: str | None = None
    idle_seconds: float | None = None
    pinned: bool = False
    preload: bool = False
    load_timeout: float | None = None
    stall_timeout: float | None = None
    canary: bool | None = None
    defaults: GenerationParams = NOTHING_SAID
    context: int | None = None
    threads: int | None = None
    slots: int | None = None
    gpu_layers: int | None = None
    engine_args: tuple[str, ...] = ()
    lora: Mapping[str, str] = field(default_factory=dict)
    engine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All that requests may call it."""
        own = (self.name, *self.aliases)
        return (*own, *(f"{name}:{adapter}" for name in own for adapter in self.lora))

    def own_engine(self, base: EngineOptions | None = None) -> EngineOptions:
        """The options with which our own engine serves it: ``base``, and what is said of this model in its place.

        Only for a local source. Raises ``InvalidValueError`` for options out of range.
        """
        assert isinstance(self.source, LocalSource)
        said: dict[str, Any] = {"model": self.source.model, "max_context": self.context, "threads": self.threads}
        said |= {"adapters": dict(self.lora) or None, **self.engine}
        said = {name: value for name, value in said.items() if value is not None}
        return EngineOptions(**said) if base is None else replace(base, **said)

    def llama_cpp(self, base: LlamaCppOptions | None = None) -> LlamaCppOptions:
        """The options with which llama.cpp serves it, as ``own_engine``."""
        said: dict[str, Any] = {
            "context": self.context,
            "slots": self.slots,
            "threads": self.threads,
            "gpu_layers": self.gpu_layers,
            "start_seconds": self.load_timeout,
            "more": self.engine_args or None,
        }
        return replace(base or LlamaCppOptions(), **{name: value for name, value in said.items() if value is not None})

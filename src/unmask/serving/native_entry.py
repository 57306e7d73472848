"""A model for our own engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog

from unmask.checkpoints.directory import Checkpoint
from unmask.checkpoints.prompts import PromptEncoder
from unmask.engine.footprint import model_bytes
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.session_place import SessionPlace
from unmask.engine.wire import Session
from unmask.errors import ModelLoadTimeoutError
from unmask.gateway.config.wanted import NOTHING_SAID
from unmask.gateway.supervisor import Progress
from unmask.models.card import ModelCard
from unmask.models.info import context_length, model_info
from unmask.models.logits_worker.served import worker_spec
from unmask.models.registry import describe
from unmask.models.spec import ModelSpec
from unmask.params import GenerationParams
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.entry import Entry, Stay
from unmask.serving.listing import Listing
from unmask.serving.resident import LoadedModel, NativeResident
from unmask.terms import NO_TIMEOUTS, Timeouts

_log = structlog.get_logger()


class NativeEntry(Entry):
    """Loaded in an engine process of its own, within ``load_seconds``; None takes what it takes. ``place``: where that
    finds what it had in a life before, and leaves what it has; None is nowhere.
    """

    def __init__(
        self,
        name: str,
        options: EngineOptions,
        checkpoint: Checkpoint,
        card: ModelCard,
        *,
        max_waiting: int,
        timeouts: Timeouts = NO_TIMEOUTS,
        load_seconds: float | None = None,
        stay: Stay = Stay(),  # noqa: B008
        defaults: GenerationParams = NOTHING_SAID,
        aliases: Sequence[str] = (),
        canary: bool = False,
        place: SessionPlace | None = None,
    ) -> None:
        """Raises what ``describe`` and ``worker_spec`` raise, and ``InvalidValueError`` for too large a context."""
        spec = describe(checkpoint, attention=options.attention, adapted=options.adapter is not None)
        if options.logits_workers is not None:
            spec = worker_spec(spec)
        length = context_length(spec, options.max_context)
        super().__init__(
            list(_listings(name, options, spec, card)),
            size_bytes=model_bytes(
                options,
                spec,
                parameters=card.parameters or 0,
                weight_bytes=card.weight_bytes or 0,
                context_length=length,
            ),
            stay=stay,
            defaults=defaults,
            aliases=aliases,
            canary=canary,
            files=_files(options, checkpoint),
        )
        self._options = options
        self._place = place
        self._capacity = options.max_running + max_waiting
        self._timeouts = timeouts
        self._load_seconds = load_seconds

    async def _load(self, progress: Progress) -> LoadedModel:
        try:
            async with asyncio.timeout(self._load_seconds) as limit:
                return await self._launch(progress)
        except TimeoutError:
            if not limit.expired():
                raise
            raise ModelLoadTimeoutError(
                f"Model '{self.name}' was not loaded within {self._load_seconds:g} s.",
                hint="Give it more time (load_timeout), or serve a smaller model.",
            ) from None

    async def _launch(self, progress: Progress) -> LoadedModel:
        begun = time.monotonic()
        engine = await self._engine(progress)
        try:
            prompts = await asyncio.to_thread(PromptEncoder, self._options.model, engine.model)
            self.metrics.loaded(time.monotonic() - begun, lambda: engine.stats)
            loaded = DiffusionModel(
                engine,
                prompts,
                name=self.name,
                metrics=self.metrics,
                capacity=self._capacity,
                timeouts=self._timeouts,
            )
        except BaseException:
            await engine.close()
            raise
        return NativeResident(engine, loaded, self.defaults)

    async def _engine(self, progress: Progress) -> ProcessEngine:
        return await ProcessEngine.launch(self._options, progress, self._place, self._note)

    def _note(self, session: Session) -> None:
        if session.reason:
            _log.warning(f"session not {session.action}", model=self.name, reason=session.reason)
        self.metrics.kept(session.action, session.tokens)


def _files(options: EngineOptions, checkpoint: Checkpoint) -> list[Path]:
    others = [options.adapter] if options.adapter is not None else []
    own = [checkpoint.path] if checkpoint.header is None else checkpoint.weights
    if options.logits_workers is not None:
        others.append(options.logits_workers.program)
    return [*own, *map(Path, [*others, *options.adapters.values()])]


def _listings(name: str, options: EngineOptions, spec: ModelSpec, card: ModelCard) -> Iterator[Listing]:
    """What is known before the engine tells."""
    for adapter in ("", *options.adapters):
        info = model_info(
            spec,
            card.name or name,
            max_context=options.max_context,
            adapter=adapter,
            parameters=card.parameters or 0,
            lane=options.lane,
            service_classes=options.service_classes,
        )
        yield Listing(
            name=f"{name}:{adapter}" if adapter else name,
            created=int(time.time()),
            lane=options.lane,
            paradigm="diffusion",
            family=info.family,
            parent=name if adapter else None,
            context_length=info.context_length,
            parameters=info.parameters,
            size=card.weight_bytes or 0,
            capabilities=("completion", "tools") if card.chat_template else ("completion",),
            info=info,
        )

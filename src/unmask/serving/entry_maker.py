"""From what a model is, and where it goes, to its entry in the house."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from unmask.checkpoints.directory import find_checkpoint
from unmask.checkpoints.gguf_split import shards
from unmask.engine.options import EngineOptions
from unmask.engine.session_place import SessionPlace
from unmask.errors import UnmaskError
from unmask.gateway.config.appraisal import Appraisal
from unmask.gateway.config.need import child_bytes, child_options, elsewhere
from unmask.gateway.config.wanted import LocalSource, RemoteSource, WantedModel
from unmask.gateway.engine_plan import logits_workers
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.lane import Lane
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.models.card import ModelCard
from unmask.refusal import Refusal
from unmask.serving.child_start import ChildStart
from unmask.serving.entry import Entry, Stay
from unmask.serving.lane_entry import LaneEntry
from unmask.serving.listing import Listing
from unmask.serving.native_entry import NativeEntry
from unmask.serving.settings import ServerSettings
from unmask.serving.worker_entry import WorkerEntry
from unmask.session_store import SessionStore


class EntryMaker:
    """Makes the entries of a house; ``alone``: there is but one, which then stays.

    ``engine`` has the options of our own engine for all models, ``folder`` what tells of children, once there are any,
    and ``store`` keeps conversations, None nowhere.
    """

    def __init__(
        self,
        engine: EngineOptions,
        settings: ServerSettings,
        folder: Path,
        store: SessionStore | None,
        *,
        alone: bool,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._folder = folder
        self._store = store
        self._alone = alone

    def make(self, appraisal: Appraisal) -> Entry | Refusal:
        """The entry, or what its lane, or the folder of its log, has against it."""
        if isinstance(appraisal.found, Refusal):
            return appraisal.found
        try:
            return self._made(appraisal.entry, appraisal.card, appraisal.found.lane)
        except UnmaskError as error:
            return Refusal.of(error)

    def _made(self, wanted: WantedModel, card: ModelCard, lane: Lane) -> Entry:
        if isinstance(wanted.source, RemoteSource):
            return self._remote(wanted, wanted.source, card)
        if lane.kind == "unmask":
            return self._native(wanted, wanted.source, card)
        if lane.kind == "logits_worker":
            return self._worker(wanted, wanted.source, card, lane)
        return self._child(wanted, card, lane)

    def _native(self, wanted: WantedModel, source: LocalSource, card: ModelCard) -> Entry:
        base, settings = self._engine, self._settings
        if not self._alone:
            base = replace(base, adapter=None, adapters={}, step_log=None)
        return NativeEntry(
            wanted.name,
            wanted.own_engine(base),
            find_checkpoint(source.model, download=False),
            card,
            max_waiting=settings.max_waiting,
            timeouts=settings.timeouts,
            load_seconds=wanted.load_timeout,
            stay=self._stay(wanted),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            canary=settings.canary if wanted.canary is None else wanted.canary,
            place=None if self._store is None else SessionPlace(str(self._store.directory), self._store.most_bytes),
        )

    def _worker(self, wanted: WantedModel, source: LocalSource, card: ModelCard, lane: Lane) -> Entry:
        settings = self._settings
        workers = logits_workers(lane, RegistryFile().read(), wanted)
        return WorkerEntry(
            wanted.name,
            wanted.own_engine(elsewhere(self._engine, workers, card)),
            find_checkpoint(source.model, download=False),
            card,
            log=self._directory.log_path(wanted.name),
            max_waiting=settings.max_waiting,
            timeouts=settings.timeouts,
            load_seconds=wanted.load_timeout,
            stay=self._stay(wanted),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            canary=settings.canary if wanted.canary is None else wanted.canary,
        )

    def _child(self, wanted: WantedModel, card: ModelCard, lane: Lane) -> Entry:
        options = child_options(wanted, card, self._engine)
        start = ChildStart(
            wanted=wanted,
            card=card,
            lane=lane,
            options=options,
            directory=self._directory,
            store=self._store,
            note=lambda action, tokens: entry.metrics.kept(action, tokens),
        )
        entry = LaneEntry(
            replace(_listing(wanted, card, lane.name), context_length=options.context),
            start.connect,
            capacity=options.slots + self._settings.max_waiting,
            timeouts=self._settings.timeouts,
            patience=self._patience(wanted),
            size_bytes=child_bytes(card, options),
            stay=self._stay(wanted),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            log=self._directory.log_path(wanted.name),
            canary=wanted.canary is not False,
            files=_files(card),
        )
        return entry

    def _remote(self, wanted: WantedModel, source: RemoteSource, card: ModelCard) -> Entry:
        endpoint = Endpoint(
            lane="remote",
            kind="remote",
            base_url=source.url,
            model=source.model,
            key=os.environ.get(source.api_key_env or "", ""),
            snapshots=source.diffusing,
            context_length=wanted.context,
            served=wanted.name,
        )

        async def connect() -> tuple[Endpoint, None]:
            return endpoint, None

        return LaneEntry(
            _listing(wanted, card, "remote"),
            connect,
            capacity=self._engine.max_running + self._settings.max_waiting,
            timeouts=self._settings.timeouts,
            patience=self._patience(wanted),
            stay=Stay(),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            canary=wanted.canary is True,
        )

    def _stay(self, wanted: WantedModel) -> Stay:
        if self._alone:
            return Stay(pinned=True, preload=True, required=True)
        return Stay(
            idle_seconds=wanted.idle_seconds,
            pinned=wanted.pinned,
            preload=wanted.preload,
            required=wanted.named,
        )

    def _patience(self, wanted: WantedModel) -> Patience:
        patience = Patience(queue=self._settings.timeouts.queue or None)
        return patience if wanted.stall_timeout is None else replace(patience, stall=wanted.stall_timeout)

    @cached_property
    def _directory(self) -> RunDirectory:
        """The folder of children, rid of those that a killed server has left."""
        directory = RunDirectory(self._folder)
        directory.sweep()
        return directory


def _files(card: ModelCard) -> list[Path]:
    """What a model is read from, and the registry, which tells when an engine has changed."""
    assert card.path is not None, "it was found"
    path, registry = Path(card.path), RegistryFile().path
    return [*([path] if path.is_dir() else shards(path)), *([registry] if registry.exists() else [])]


def _listing(wanted: WantedModel, card: ModelCard, lane: str) -> Listing:
    return Listing(
        name=wanted.name,
        created=int(time.time()),
        lane=lane,
        paradigm=card.paradigm,
        family=card.architecture or card.name or wanted.name,
        context_length=wanted.context or card.context_length or 0,
        parameters=card.parameters or 0,
        size=card.weight_bytes or 0,
        precision=card.quantization or "",
        capabilities=("completion", "tools"),
    )

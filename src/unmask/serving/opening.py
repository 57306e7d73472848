"""From what a server is started with to its house of models."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from unmask.checkpoints.directory import find_checkpoint
from unmask.checkpoints.gguf_split import shards
from unmask.checkpoints.paradigm import Paradigm
from unmask.engine.free_memory import host_bytes
from unmask.engine.options import EngineOptions
from unmask.engine.session_place import SessionPlace
from unmask.errors import InvalidValueError, UnmaskError
from unmask.gateway.child import Child
from unmask.gateway.config.appraisal import Appraisal, appraise
from unmask.gateway.config.config import Config
from unmask.gateway.config.engine_args import takes_arguments
from unmask.gateway.config.entries import entries
from unmask.gateway.config.need import child_bytes, child_options, memory_for_models
from unmask.gateway.config.wanted import LocalSource, RemoteSource, WantedModel
from unmask.gateway.engine_plan import logits_workers, plan_for
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.lane import Lane
from unmask.gateway.lanes import known_lanes
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.gateway.model_state import ModelRecord
from unmask.gateway.rescue import load_or_rescue
from unmask.gateway.residency import ResidencyLimits
from unmask.gateway.room import Room
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.slot_sessions import Note, sessions_for
from unmask.gateway.upstream.endpoint import Endpoint, Patience, UpstreamKind
from unmask.home import home, sessions_folder
from unmask.models.card import ModelCard
from unmask.refusal import Refusal
from unmask.serving.entry import Entry, Stay
from unmask.serving.house import House
from unmask.serving.lane_entry import LaneEntry
from unmask.serving.listing import Listing
from unmask.serving.native_entry import NativeEntry
from unmask.serving.settings import ServerSettings
from unmask.serving.worker_entry import WorkerEntry, elsewhere
from unmask.session_store import SessionStore


@dataclass(frozen=True, slots=True, kw_only=True)
class HousePlan:
    """``models`` of the command line, those of ``config``, and the options of our own ``engine`` for all of them.

    The adapters that ``engine`` has are those of the one model, if there is but one.
    """

    models: Sequence[str]
    engine: EngineOptions
    settings: ServerSettings
    config: Config = field(default_factory=Config)

    def open(self) -> House:
        """The house. Raises why a model of the command line is not served, ``InsufficientMemoryError`` if it can never
        be loaded for one, and what a configuration has wrong.
        """
        wanted = self._wanted()
        for asked in wanted:
            if asked.named and isinstance(asked.source, LocalSource):
                find_checkpoint(asked.source.model)  # downloads a model of the hub
        appraisals = appraise(wanted, known_lanes())
        refused: dict[str, Refusal] = {}
        made: list[tuple[WantedModel, Entry]] = []
        maker = _Maker(self, alone=len(appraisals) == 1, store=self._store())

        def refuse(entry: WantedModel, why: Refusal) -> None:
            if entry.named:
                raise why.error()
            refused.update(dict.fromkeys(entry.names, why))

        for one in appraisals:
            entry = maker.make(one)
            if isinstance(entry, Refusal):
                refuse(one.entry, entry)
            else:
                made.append((one.entry, entry))
        limits = self._limits(alone=len(made) == 1)
        too_large = Room(limits.memory_bytes, limits.max_resident).never_fitting(_record(entry) for _, entry in made)
        for asked, _ in made:
            if asked.name in too_large:
                refuse(asked, Refusal.of(too_large[asked.name]))
        served = [entry for asked, entry in made if asked.name not in too_large]
        if not served:
            raise _none_served(refused)
        return House(served, refused, limits)

    def _wanted(self) -> list[WantedModel]:
        wanted = entries(self.config, self.models)
        named = self.settings.served_name
        if named is None:
            return wanted
        if len(wanted) > 1:
            raise InvalidValueError(
                f"--served-model-name is for one model, and there are {len(wanted)}.",
                hint="Name them in a configuration file (--config).",
                param="served_model_name",
            )
        return [replace(wanted[0], name=named)]

    def _store(self) -> SessionStore | None:
        """Where conversations are kept, rid of what killed servers have left half-written."""
        said = self.settings.session_store
        most_bytes = self.config.session_store if said is None else said
        if not most_bytes:
            return None
        store = SessionStore(sessions_folder(), most_bytes)
        store.sweep()
        return store

    def _limits(self, *, alone: bool) -> ResidencyLimits:
        """One model takes what it takes; several share what is said, or what was free."""
        memory = memory_for_models(self.config, host_bytes(), alone=alone)
        waiting = max(self.settings.max_waiting, 1)
        return ResidencyLimits(memory_bytes=memory, max_resident=self.config.max_models, max_waiting=waiting)


class _Maker:
    """Makes the entries of a house; ``alone``: there is but one, which then stays."""

    def __init__(self, plan: HousePlan, *, alone: bool, store: SessionStore | None) -> None:
        self._plan = plan
        self._store = store
        self._alone = alone
        self._directory: RunDirectory | None = None

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

    def _stay(self, wanted: WantedModel) -> Stay:
        if self._alone:
            return Stay(pinned=True, preload=True, required=True)
        return Stay(
            idle_seconds=wanted.idle_seconds,
            pinned=wanted.pinned,
            preload=wanted.preload,
            required=wanted.named,
        )

    def _native(self, wanted: WantedModel, source: LocalSource, card: ModelCard) -> Entry:
        base, settings = self._plan.engine, self._plan.settings
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
        workers = logits_workers(lane, RegistryFile().read(), wanted)
        options = wanted.own_engine(elsewhere(self._plan.engine, workers, card))
        return WorkerEntry(
            wanted.name,
            options,
            find_checkpoint(source.model, download=False),
            card,
            log=self._run_directory().log_path(wanted.name),
            max_waiting=self._plan.settings.max_waiting,
            timeouts=self._plan.settings.timeouts,
            load_seconds=wanted.load_timeout,
            stay=self._stay(wanted),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            canary=wanted.canary and self._plan.settings.canary,
        )

    def _child(self, wanted: WantedModel, card: ModelCard, lane: Lane) -> Entry:
        options = child_options(wanted, card, self._plan.engine)
        directory = self._run_directory()

        def note(action: str, tokens: int) -> None:
            entry.metrics.kept(action, tokens)

        connect = partial(self._start, wanted, card, lane, options, directory, note)
        entry = LaneEntry(
            replace(_listing(wanted, card, lane.name), context_length=options.context),
            connect,
            capacity=options.slots + self._plan.settings.max_waiting,
            timeouts=self._plan.settings.timeouts,
            patience=self._patience(wanted),
            size_bytes=child_bytes(card, options),
            stay=self._stay(wanted),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            log=directory.log_path(wanted.name),
            canary=wanted.canary is not False,
            files=_files(card),
        )
        return entry

    async def _start(
        self,
        wanted: WantedModel,
        card: ModelCard,
        lane: Lane,
        options: LlamaCppOptions,
        directory: RunDirectory,
        note: Note,
    ) -> tuple[Endpoint, Child]:
        """A child on ``lane``; unless that alone is wanted, on one other that knows what it turns out not to know.

        Flags of the model's own are never given to another kind of engine.
        """
        assert card.path is not None, "it was found"
        model, name, registry = Path(card.path), wanted.name, RegistryFile()

        async def start(on: Lane) -> Child:
            engines = await asyncio.to_thread(registry.read)
            sessions = await asyncio.to_thread(sessions_for, self._store, on, card, options, note, name)
            said = options if sessions is None else replace(options, sessions=sessions.directory)
            kind, architecture = card.paradigm, card.architecture
            plan = plan_for(on, engines, model, name, kind, said, architecture, context=wanted.context)
            if wanted.load_timeout is not None:
                plan = replace(plan, start_seconds=wanted.load_timeout)
            return await Child.start(replace(plan, sessions=sessions, own=wanted.engine_args), directory)

        if wanted.lane is not None:
            used, child = lane, await start(lane)
        else:
            lanes: Sequence[Lane] = await asyncio.to_thread(known_lanes)  # may have to read a program that has changed
            if wanted.engine_args:
                lanes = [one for one in lanes if one.kind == lane.kind and takes_arguments(one)]
            used, child = await load_or_rescue(card, lanes, lane, start, registry)
        return child_endpoint(used, child, name, card.paradigm, options.slots), child

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
            capacity=self._plan.engine.max_running + self._plan.settings.max_waiting,
            timeouts=self._plan.settings.timeouts,
            patience=self._patience(wanted),
            stay=Stay(),
            defaults=wanted.defaults,
            aliases=wanted.aliases,
            canary=wanted.canary is True,
        )

    def _patience(self, wanted: WantedModel) -> Patience:
        patience = Patience(queue=self._plan.settings.timeouts.queue or None)
        return patience if wanted.stall_timeout is None else replace(patience, stall=wanted.stall_timeout)

    def _run_directory(self) -> RunDirectory:
        """The folder of children, rid of those that a killed server has left."""
        if self._directory is None:
            self._directory = RunDirectory(self._plan.config.log_dir or home() / "run")
            self._directory.sweep()
        return self._directory


def _record(entry: Entry) -> ModelRecord:
    return ModelRecord(name=entry.name, size_bytes=entry.size_bytes, idle_seconds=None, pinned=entry.stay.pinned)


def _files(card: ModelCard) -> list[Path]:
    """What a model is read from, and the registry, which tells when an engine has changed."""
    assert card.path is not None, "it was found"
    path, registry = Path(card.path), RegistryFile().path
    return [*([path] if path.is_dir() else shards(path)), *([registry] if registry.exists() else [])]


def _none_served(refused: Mapping[str, Refusal]) -> InvalidValueError:
    """That all are refused, and why the first of them is."""
    told = "".join(f" '{name}': {refusal.message}" for name, refusal in list(refused.items())[:1])
    return InvalidValueError(
        f"None of the models can be served.{told}",
        hint="'unmask list' with the same --config says why of each.",
        param="config",
    )


def child_endpoint(lane: Lane, child: Child, name: str, paradigm: Paradigm, slots: int) -> Endpoint:
    """Where ``child`` answers for the model ``name``, and how many at once. A server of llama.cpp for diffusion has one
    slot, and shows its model no tools.
    """
    kind: UpstreamKind = lane.kind if lane.kind in ("vllm", "sglang") else "llama.cpp"
    where = Endpoint(lane=lane.name, kind=kind, base_url=f"{child.url}/v1", model=name, key=child.secret)
    if kind != "llama.cpp":
        return where
    if paradigm == "diffusion":
        return replace(where, kind="diffusion", tools=False, at_once=1)
    return replace(where, at_once=slots)


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

"""From what a server is started with to its house of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from unmask.checkpoints.directory import find_checkpoint
from unmask.engine.free_memory import host_bytes
from unmask.engine.options import EngineOptions
from unmask.errors import InvalidValueError
from unmask.gateway.config.appraisal import appraise
from unmask.gateway.config.config import Config
from unmask.gateway.config.entries import entries
from unmask.gateway.config.need import memory_for_models
from unmask.gateway.config.wanted import LocalSource, WantedModel
from unmask.gateway.lanes import known_lanes
from unmask.gateway.model_state import ModelRecord
from unmask.gateway.residency import ResidencyLimits
from unmask.gateway.room import Room
from unmask.home import home, sessions_folder
from unmask.refusal import Refusal
from unmask.serving.entry import Entry
from unmask.serving.entry_maker import EntryMaker
from unmask.serving.house import House
from unmask.serving.settings import ServerSettings
from unmask.session_store import SessionStore

_Made = list[tuple[WantedModel, Entry | Refusal]]


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
        made = self._made()
        limits = self._limits(alone=sum(isinstance(entry, Entry) for _, entry in made) == 1)
        served: list[Entry] = []
        refused: dict[str, Refusal] = {}
        for asked, entry in _with_room(made, limits):
            if isinstance(entry, Entry):
                served.append(entry)
            elif asked.named:
                raise entry.error()
            else:
                refused |= dict.fromkeys(asked.names, entry)
        if not served:
            raise _none_served(refused)
        return House(served, refused, limits)

    def _made(self) -> _Made:
        """What becomes of each model that is wanted, whatever room there is."""
        wanted = self._wanted()
        for asked in wanted:
            if asked.named and isinstance(asked.source, LocalSource):
                find_checkpoint(asked.source.model)  # downloads a model of the hub
        appraisals = appraise(wanted, known_lanes())
        folder = self.config.log_dir or home() / "run"
        maker = EntryMaker(self.engine, self.settings, folder, self._store(), alone=len(appraisals) == 1)
        return [(one.entry, maker.make(one)) for one in appraisals]

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


def _with_room(made: _Made, limits: ResidencyLimits) -> _Made:
    """``made``, those refused that can never be loaded."""
    records = [_record(entry) for _, entry in made if isinstance(entry, Entry)]
    too_large = Room(limits.memory_bytes, limits.max_resident).never_fitting(records)
    refused = {name: Refusal.of(error) for name, error in too_large.items()}
    return [(asked, refused.get(asked.name, entry)) for asked, entry in made]


def _record(entry: Entry) -> ModelRecord:
    return ModelRecord(name=entry.name, size_bytes=entry.size_bytes, idle_seconds=None, pinned=entry.stay.pinned)


def _none_served(refused: Mapping[str, Refusal]) -> InvalidValueError:
    """That all are refused, and why the first of them is."""
    told = "".join(f" '{name}': {refusal.message}" for name, refusal in list(refused.items())[:1])
    return InvalidValueError(
        f"None of the models can be served.{told}",
        hint="'unmask list' with the same --config says why of each.",
        param="config",
    )

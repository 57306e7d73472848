"""From the values of a file to a ``Config``."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.checkpoints.hub import HubModel
from unmask.engine.options import EngineOptions
from unmask.errors import InvalidValueError
from unmask.gateway.config.config import Config
from unmask.gateway.config.defaults import PLAIN
from unmask.gateway.config.document import Document, check_bounds
from unmask.gateway.config.faults import fault_of
from unmask.gateway.config.names import check_names
from unmask.gateway.config.schema import ENGINE_KEYS, RENAMED, ConfigTable, DefaultsTable
from unmask.gateway.config.wanted import NOTHING_SAID, LocalSource, RemoteSource, WantedModel
from unmask.params import GenerationParams
from unmask.service_class import ServiceClass

_PATHS = ("adapter", "step_log")  # options of our own engine that are paths


def make_config(document: Document, directory: Path) -> Config:
    """What ``document`` says; its relative paths are relative to ``directory``. Raises ``InvalidConfigError``."""
    check_bounds(document)
    try:
        table = ConfigTable.model_validate(document.value)
    except ValidationError as error:
        raise fault_of(error, document) from None
    idle = None if table.idle_seconds is None else _endless(table.idle_seconds)
    config = Config(
        path=Path(os.path.abspath(document.file)) if document.file else None,
        models_dir=_place(table.models_dir, directory),
        memory_budget=table.memory_budget,
        max_models=table.max_models,
        idle_seconds=idle,
        load_timeout=table.load_timeout,
        log_dir=_place(table.log_dir, directory),
        session_store=table.session_store,
        models=tuple(
            _entry(document, name, said, directory, idle, table.load_timeout)
            for name, said in (table.models or {}).items()
        ),
    )
    check_names(config.models)
    return config


def _entry(
    document: Document, name: str, said: Any, directory: Path, idle: float | None, load_timeout: float | None
) -> WantedModel:
    entry = WantedModel(
        name=name,
        source=_source(said, directory),
        aliases=tuple(said.aliases or ()),
        origin=_origin(document, name),
        lane=said.lane,
        idle_seconds=idle if said.keep_alive is None else _endless(said.keep_alive),
        pinned=bool(said.pinned),
        preload=bool(said.preload),
        load_timeout=said.load_timeout or load_timeout,
        stall_timeout=said.stall_timeout,
        canary=said.canary,
        defaults=_defaults(said.defaults),
        context=said.context,
        threads=said.threads,
        slots=said.slots,
        gpu_layers=said.gpu_layers,
        engine_args=tuple(said.engine_args or ()),
        lora={adapter: str(_absolute(path, directory)) for adapter, path in (said.lora or {}).items()},
        engine=_engine(said, directory),
    )
    _check_engine(document, entry)
    return entry


def _origin(document: Document, name: str) -> str:
    line = document.lines.get(("models", name))
    return ":".join(filter(None, [document.file or "the configuration", str(line or "")]))


def _source(said: Any, directory: Path) -> LocalSource | RemoteSource:
    if said.url is None:
        return LocalSource(_model(said.path, directory))
    return RemoteSource(
        url=said.url,
        model=said.model,
        api_key_env=said.api_key_env,
        diffusing=bool(said.diffusing),
        paradigm="diffusion" if said.diffusing else said.paradigm or "unknown",
    )


def _model(text: str, directory: Path) -> str:
    """A model as ``find_checkpoint`` takes it, as on the command line: what exists wins over an id of the hub."""
    if text == EMBEDDED_MODEL:
        return text
    path = _absolute(text, directory)
    return text if HubModel.parse(text) is not None and not os.path.exists(path) else str(path)


def _absolute(text: str, directory: Path) -> Path:
    return Path(os.path.normpath(directory / os.path.expanduser(text)))


def _place(text: str | None, directory: Path) -> Path | None:
    return None if text is None else _absolute(text, directory)


def _endless(seconds: float) -> float | None:
    return None if math.isinf(seconds) else seconds


def _defaults(said: DefaultsTable | None) -> GenerationParams:
    if said is None:
        return NOTHING_SAID
    values = {name: getattr(said, name) for name in PLAIN} | {"stop": tuple(said.stop or ())}
    if said.unmask is not None:
        values |= said.unmask.model_dump()
    return GenerationParams(**values)


def _engine(said: Any, directory: Path) -> Mapping[str, Any]:
    """The options of our own engine that ``said`` has."""
    found = {name: value for name in ENGINE_KEYS if (value := getattr(said, name)) is not None}
    found |= {name: str(_absolute(found[name], directory)) for name in _PATHS if name in found}
    if "service_classes" in found:
        found["service_classes"] = {
            name: ServiceClass(one.floor, one.relaxes_at) for name, one in found["service_classes"].items()
        }
    return found


def _check_engine(document: Document, entry: WantedModel) -> None:
    """Raise what our own engine would say of its options, at their place in the file."""
    if not isinstance(entry.source, LocalSource):
        return
    try:
        entry.own_engine(EngineOptions(model=entry.source.model))
    except InvalidValueError as error:
        name = error.param or ""
        path = ("models", entry.name, RENAMED.get(name, name))
        raise document.fault(path, f"is out of range: {error.message}", hint=error.hint) from None

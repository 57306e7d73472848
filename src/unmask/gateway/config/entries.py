"""All models of a server: those of the command line, of the configuration, and of its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from unmask.checkpoints.directory import EMBEDDED_MODEL, name_of
from unmask.gateway.config.config import Config
from unmask.gateway.config.folder import models_in
from unmask.gateway.config.names import check_names
from unmask.gateway.config.wanted import LocalSource, WantedModel

_COMMAND_LINE = "the command line"  # where an entry comes from


def entries(config: Config, models: Sequence[str] = ()) -> list[WantedModel]:
    """Those of the command line, ``models``, come first, then those of the file, then what is in its folder besides.

    A name of the configuration among ``models`` means that one, and puts it here; anything else is a path, a hub id or
    the embedded model's name, and is called as its checkpoint. The first one of ``models`` is loaded at the start.
    Where nothing is named at all, the embedded model is served; a folder without models gives no entries. Raises
    ``InvalidConfigError`` for two models of one name, and for a folder that cannot be read. Only names of files are
    looked at: which of the entries are models, ``appraise`` tells.
    """
    if not models and not config.models and config.models_dir is None:
        models = [EMBEDDED_MODEL]
    known = {name: entry for entry in config.models for name in (entry.name, *entry.aliases)}
    chosen = [replace(known.get(model) or _given(model, config), named=True) for model in models]
    if chosen:
        chosen[0] = replace(chosen[0], preload=True)
    names = {entry.name for entry in chosen}
    found = chosen + [entry for entry in config.models if entry.name not in names]
    found += _in_folder(config, found)
    check_names(found)
    return found


def _given(model: str, config: Config) -> WantedModel:
    return WantedModel(
        name=name_of(model),
        source=LocalSource(model),
        origin=_COMMAND_LINE,
        idle_seconds=config.idle_seconds,
        load_timeout=config.load_timeout,
    )


def _in_folder(config: Config, others: Sequence[WantedModel]) -> list[WantedModel]:
    """The models in the folder, but for those that are served already, on terms of their own."""
    if config.models_dir is None:
        return []
    served = {_real(entry.source.model) for entry in others if isinstance(entry.source, LocalSource)}
    return [
        WantedModel(
            name=name,
            source=LocalSource(str(path)),
            origin=str(config.models_dir),
            idle_seconds=config.idle_seconds,
            load_timeout=config.load_timeout,
        )
        for name, path in models_in(config.models_dir)
        if _real(str(path)) not in served
    ]


def _real(model: str) -> str:
    return os.path.realpath(os.path.expanduser(model))

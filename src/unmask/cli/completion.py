"""What a shell proposes when the tab key is pressed: names that are known here or to a running server, quickly, and
never an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from unmask.cli.server_options import DEFAULT_URL

if TYPE_CHECKING:
    from unmask.cli.server_client import ServerClient

_SECONDS = 1.0  # for a server's answer: somebody has pressed a key
_MOST_REQUESTS = 20
_MOST_FILES = 2000


def complete_models(incomplete: str) -> list[str]:
    """The embedded model, those of the file that ``UNMASK_CONFIG`` names, and directories and GGUF files."""
    from unmask.checkpoints.directory import EMBEDDED_MODEL

    names = [EMBEDDED_MODEL, *_configured(), *_files(incomplete)]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_paths(incomplete: str) -> list[str]:
    """The same for verbs that read no configuration: without its names."""
    from unmask.checkpoints.directory import EMBEDDED_MODEL

    return [name for name in (EMBEDDED_MODEL, *_files(incomplete)) if name.startswith(incomplete)]


def complete_lanes(incomplete: str) -> list[str]:
    """The engines that are known here."""
    from unmask.errors import UnmaskError
    from unmask.gateway.lanes import known_lanes

    try:
        lanes = known_lanes()
    except UnmaskError:  # 'unmask engine list' tells why
        return []
    return [lane.name for lane in lanes if lane.name.startswith(incomplete)]


def complete_added(incomplete: str) -> list[str]:
    """The engines that were added, which may be probed and removed."""
    from unmask.errors import UnmaskError
    from unmask.gateway.engine_registry import RegistryFile

    try:
        engines = RegistryFile().read().engines
    except UnmaskError:
        return []
    return [engine.name for engine in engines if engine.name.startswith(incomplete)]


def complete_served(context: typer.Context, incomplete: str) -> list[str]:
    """The models of the running server; where none answers, those of the file that ``UNMASK_CONFIG`` names."""
    from unmask.errors import UnmaskError

    try:
        models = _server(context).models()
        names = [name for model in models for name in (model["name"], *model["aliases"]) if model["state"] != "refused"]
    except UnmaskError:
        names = [*_configured()]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_logged(context: typer.Context, incomplete: str) -> list[str]:
    """The models of the running server that have a log of their own."""
    from unmask.errors import UnmaskError

    try:
        names = [model["name"] for model in _server(context).models() if model.get("log")]
    except UnmaskError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_requests(context: typer.Context, incomplete: str) -> list[str]:
    """The ids of the latest requests of the running server."""
    from unmask.errors import UnmaskError

    try:
        found = [request["id"] for request in _server(context).requests(_MOST_REQUESTS)]
    except UnmaskError:
        return []
    return [one for one in found if one.startswith(incomplete)]


def _server(context: typer.Context) -> ServerClient:
    """The one that the line so far, or the environment, means. Raises ``InvalidValueError``."""
    from unmask.cli.server_client import ServerClient

    return ServerClient(context.params.get("url") or DEFAULT_URL, context.params.get("api_key"), _SECONDS)


def _configured() -> Iterator[str]:
    file = os.environ.get("UNMASK_CONFIG")
    if not file:
        return
    from unmask.errors import InvalidConfigError
    from unmask.gateway.config.reading import read_config

    with suppress(InvalidConfigError):
        for entry in read_config(Path(file)).models:
            yield from entry.names


def _files(incomplete: str) -> list[str]:
    """What may be a model among the files whose paths begin so; a directory ends with a slash, to go on from there."""
    folder, begun = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [entry for _, entry in zip(range(_MOST_FILES), entries, strict=False)]
    except OSError:
        return []
    hidden = begun.startswith(".")
    prefix = incomplete[: len(incomplete) - len(begun)]
    return sorted(
        f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in found
        if (entry.is_dir() or entry.name.endswith(".gguf")) and (hidden or not entry.name.startswith("."))
    )

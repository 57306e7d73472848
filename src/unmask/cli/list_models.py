"""``unmask list``: the models that a server would have, or one has, and which engine each of them goes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options, server_options
from unmask.cli.completion import complete_lanes, complete_models

if TYPE_CHECKING:
    from unmask.cli.server_client import ServerClient
    from unmask.gateway.config.appraisal import Appraisal
    from unmask.gateway.config.config import Config
    from unmask.gateway.lane import Lane

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="MODEL", help="As of serve, beside those of the file.", autocompletion=complete_models),
]
LaneName = Annotated[
    str | None,
    typer.Option("--lane", envvar="UNMASK_LANE", help="Only the models of this engine.", autocompletion=complete_lanes),
]

Url = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_URL", help="Running server: its own models, or the states of those that are named."),
]

_HEAD = ("NAME", "ALIASES", "PARADIGM", "ARCHITECTURE", "SIZE", "CONTEXT", "LANE", "STATE")


def list_models(
    models: Models = None,
    config: options.ConfigFile = None,
    lane: LaneName = None,
    url: Url = None,
    api_key: server_options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """List the models of a configuration, of its folder, and MODEL..., from the headers of their files alone; or those
    of a running server.
    """
    import msgspec

    from unmask.cli.server_client import ServerClient
    from unmask.gateway.config.appraisal import REMOTE
    from unmask.gateway.config.config import Config
    from unmask.gateway.config.reading import read_config
    from unmask.gateway.lanes import known_lanes

    lanes = known_lanes()
    server = None if url is None else ServerClient(url, api_key)
    if server is not None and config is None and not models:
        rows = [_served_row(model) for model in server.models()]
    else:
        rows = _local_rows(Config() if config is None else read_config(config), models or [], lanes, server)
    if lane is not None:
        names = [*(one.name for one in lanes), REMOTE.name]
        names += [row["lane"] for row in rows if row["lane"] and row["lane"] not in names]  # a server's of its own
        if lane not in names:
            raise typer.BadParameter(f"'{lane}' is none of {', '.join(names)}.", param_hint="--lane")
        rows = [row for row in rows if row["lane"] == lane]
    typer.echo(msgspec.json.encode({"models": rows}).decode() if json else _table(rows))


def _local_rows(
    config: Config, models: list[str], lanes: Sequence[Lane], server: ServerClient | None
) -> list[dict[str, Any]]:
    """Those of ``config`` and ``models``, in the states that ``server`` has them in, if it answers."""
    from unmask.engine.free_memory import total_bytes
    from unmask.errors import ServerUnreachableError
    from unmask.gateway.config.appraisal import appraise
    from unmask.gateway.config.entries import entries
    from unmask.gateway.config.need import with_memory

    found = with_memory(appraise(entries(config, models), lanes), config, total_bytes())
    try:
        running = {} if server is None else {model["name"]: model for model in server.models()}
    except ServerUnreachableError as error:
        typer.echo(f"warning: {error.message} States are unknown.", err=True)
        return [row | {"state": "unknown"} if row["state"] == "absent" else row for row in map(_row, found)]
    return [_row(one, running.get(one.entry.name)) for one in found]


def _served_row(model: dict[str, Any]) -> dict[str, Any]:
    """The same of a model as a server tells of it, which tells less."""
    from unmask.refusal import Refusal

    why = model.get("why_not")
    return {
        "name": model["name"],
        "aliases": model["aliases"],
        "adapters": model["adapters"],
        "source": None,
        "paradigm": model.get("paradigm"),
        "family": None,
        "architecture": None,
        "quantization": None,
        "weight_bytes": None,
        "context_length": None,
        "lane": model.get("lane"),
        "state": model["state"],
        "refusal": Refusal(why["code"], why["message"], why["hint"]) if why else None,
    }


def _row(appraisal: Appraisal, running: dict[str, Any] | None = None) -> dict[str, Any]:
    """What is told of one model; ``running`` is what a server has told of it."""
    from unmask.refusal import Refusal
    from unmask.shown import printable

    entry, card, refusal = appraisal.entry, appraisal.card, appraisal.refusal
    if running is not None and (why := running.get("why_not")):
        refusal = Refusal(why["code"], why["message"], why["hint"])
    return {
        "name": entry.name,
        "aliases": entry.aliases,
        "adapters": list(entry.lora),
        "source": printable(card.model),
        "paradigm": card.paradigm,
        "family": card.family,
        "architecture": card.architecture,
        "quantization": card.quantization,
        "weight_bytes": card.weight_bytes,
        "context_length": entry.context or card.context_length,
        "lane": None if appraisal.lane is None else appraisal.lane.name,
        "state": _state(appraisal, running),
        "refusal": refusal,
    }


def _state(appraisal: Appraisal, running: dict[str, Any] | None) -> str:
    from unmask.checkpoints.hub import HubModel
    from unmask.errors import CheckpointNotFoundError

    refusal = appraisal.refusal
    if refusal is None:
        return "absent" if running is None else str(running["state"])
    is_elsewhere = refusal.code == CheckpointNotFoundError.code and HubModel.parse(appraisal.card.model) is not None
    return "not downloaded" if is_elsewhere else "refused"


def _table(rows: list[dict[str, Any]]) -> str:
    """Aligned columns, and below them why a model is refused."""
    from unmask.cli.sizes import size
    from unmask.cli.tables import columns, few, why_not
    from unmask.shown import printable

    cells = [
        (
            row["name"],
            few(row["aliases"]),
            row["paradigm"],
            row["family"] or row["architecture"],
            size(row["weight_bytes"]),
            f"{row['context_length']:,}" if row["context_length"] else None,
            row["lane"],
            row["state"],
        )
        for row in rows
    ]
    refused = [(row["name"], row["refusal"]) for row in rows if row["refusal"] is not None]
    told = [line for name, why in refused for line in why_not(name, why.code, why.message, why.remedy)]
    return "\n".join([columns(_HEAD, cells), *map(printable, told)])

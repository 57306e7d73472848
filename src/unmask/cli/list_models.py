"""``unmask list``: the models that a server would have, and which engine each of them goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from unmask.cli import options, server_options
from unmask.cli.completion import complete_lanes, complete_models

if TYPE_CHECKING:
    from unmask.gateway.config.appraisal import Appraisal

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
    typer.Option(envvar="UNMASK_URL", help="Running server with these models, that tells their states; none is asked."),
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
    """List the models of a configuration, of its folder, and MODEL..., from the headers of their files alone."""
    import msgspec

    from unmask.cli.server_client import models_by_name
    from unmask.engine.free_memory import total_bytes
    from unmask.gateway.config.appraisal import REMOTE, appraise
    from unmask.gateway.config.config import Config
    from unmask.gateway.config.entries import entries
    from unmask.gateway.config.need import with_memory
    from unmask.gateway.config.reading import read_config
    from unmask.gateway.lanes import known_lanes

    lanes = known_lanes()
    names = [*(one.name for one in lanes), REMOTE.name]
    if lane is not None and lane not in names:
        raise typer.BadParameter(f"'{lane}' is none of {', '.join(names)}.", param_hint="--lane")
    read = Config() if config is None else read_config(config)
    found = with_memory(appraise(entries(read, models or []), lanes), read, total_bytes())
    running = {} if url is None else models_by_name(url, api_key)
    rows = [
        _row(one, running.get(one.entry.name)) for one in found if lane is None or (one.lane and one.lane.name == lane)
    ]
    typer.echo(msgspec.json.encode({"models": rows}).decode() if json else _table(rows))


def _row(appraisal: Appraisal, running: dict[str, Any] | None) -> dict[str, Any]:
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
        return "not loaded" if running is None else str(running["state"])
    is_elsewhere = refusal.code == CheckpointNotFoundError.code and HubModel.parse(appraisal.card.model) is not None
    return "not downloaded" if is_elsewhere else "refused"


def _table(rows: list[dict[str, Any]]) -> str:
    """Aligned columns, and below them a line for each model that is refused."""
    from unmask.cli.sizes import size
    from unmask.cli.tables import columns, few
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
    refused = [row for row in rows if row["refusal"] is not None]
    why = [printable(f"{row['name']}: {row['refusal'].message} [{row['refusal'].code}]") for row in refused]
    return "\n".join([columns(_HEAD, cells), *why])

"""``unmask ps``: the models of a running server, and where each is in its life."""

from __future__ import annotations

import time
from typing import Any

import typer

from unmask.cli import options, server_options

_HEAD = ("NAME", "ALIASES", "STATE", "LANE", "USERS", "WAITING", "SIZE", "GOES")


def ps(
    url: server_options.Url = server_options.DEFAULT_URL,
    api_key: server_options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Say which models a running server has in memory, who uses them, and when they go."""
    import msgspec

    from unmask.cli.server_client import ServerClient
    from unmask.cli.tables import columns
    from unmask.shown import printable

    models = ServerClient(url, api_key).models()
    now = time.time()
    if json:
        typer.echo(msgspec.json.encode({"models": models}).decode())
        return
    notes = [line for model in models for line in _notes(model, now)]
    typer.echo("\n".join([columns(_HEAD, [_row(model, now) for model in models]), *map(printable, notes)]))


def _row(model: dict[str, Any], now: float) -> list[str | None]:
    from unmask.cli.sizes import size
    from unmask.cli.tables import few

    if model["state"] == "refused":
        return [model["name"], "", "refused", "", "", "", "", ""]
    return [
        model["name"],
        few(model["aliases"]),
        _state(model),
        model["lane"],
        str(model["users"]),
        str(model["waiting"]),
        size(model["size"] or None),
        _goes(model, now),
    ]


def _state(model: dict[str, Any]) -> str:
    share = model["loaded"]
    return f"loading {share * 100:.0f} %" if share else str(model["state"])


def _goes(model: dict[str, Any], now: float) -> str:
    """When it leaves the memory, as long as nobody asks for it."""
    if model["state"] != "ready":
        return ""
    if model["expires_at"] is not None:
        return f"in {max(0.0, model['expires_at'] - now):.0f} s"
    if model["keep"] is not None:
        return f"{model['keep']:.0f} s after its use"
    return "never" if model["pinned"] else "if its room is needed"


def _notes(model: dict[str, Any], now: float) -> list[str]:
    """Why it is refused, and what to do; or what it failed with the last time, and when it is tried again."""
    from unmask.cli.tables import why_not

    if model["state"] == "refused":
        why = model["why_not"]
        return why_not(model["name"], why["code"], why["message"], why["hint"])
    if not model["failure"]:
        return []
    seconds = (model["retry_at"] or now) - now
    again = f" It is tried again in {seconds:.0f} s." if seconds > 0 else ""
    return [f"{model['name']}: it last failed: {model['failure']}{again}"]

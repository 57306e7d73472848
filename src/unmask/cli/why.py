"""``unmask why REQUEST_ID``: what happened to a request of a running server."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from unmask.cli import options, server_options
from unmask.cli.completion import complete_requests

RequestId = Annotated[
    str | None,
    typer.Argument(
        help="The 'x-request-id' of its response, or of the server's log.",
        show_default=False,
        autocompletion=complete_requests,
    ),
]
Last = Annotated[bool, typer.Option("--last", envvar="UNMASK_LAST", help="The latest request instead.")]

_PHASES = {
    "model_wait": "waited for the model",
    "model_load": "load of the model",
    "engine_queue": "engine's queue",
    "first": "first part after",
    "total": "in all",
}


def why(
    request_id: RequestId = None,
    last: Last = False,
    url: server_options.Url = server_options.DEFAULT_URL,
    api_key: server_options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Say what happened to a request: which model and engine, how long each phase took, and how it ended."""
    import msgspec

    from unmask.cli.server_client import ServerClient
    from unmask.errors import RequestNotFoundError

    if (request_id is None) != last:
        raise typer.BadParameter("give one of the two.", param_hint="REQUEST_ID, --last")
    server = ServerClient(url, api_key)
    found = [server.request(request_id)] if request_id is not None else server.requests(1)
    if not found:
        raise RequestNotFoundError("The server has had no request yet.")
    typer.echo(msgspec.json.encode(found[0]).decode() if json else _table(found[0]))


def _table(record: dict[str, Any]) -> str:
    """One aligned line for each thing that is known, whatever the names in it hold."""
    from unmask.shown import printable

    error, served = record["error"], record["served"]
    asked = record["asked"] or "(none named)"
    rows = {
        "request": record["id"],
        "at": datetime.fromtimestamp(record["at"]).astimezone().isoformat(timespec="milliseconds"),
        "path": record["path"],
        "key": record["key"],
        "model": served if served in ("", asked) else f"{served}, asked for as {asked}",
        "asked for": "" if served else asked,
        "route": record["route"],
        "found": record["found"],
        **{_PHASES[name]: f"{seconds:.3f} s" for name, seconds in record["phases"].items() if seconds is not None},
        "tokens": f"{record['prompt_tokens']} of prompts, {record['completion_tokens']} of answers",
        "forwards": _count(record.get("forwards")),
        "blocks": _count(record.get("blocks")),
        "applied": ", ".join(f"{name} {_plain(value)}" for name, value in record["applied"].items()),
        "warnings": ", ".join(record["warnings"]),
        "finish": ", ".join(dict.fromkeys(record["finish"])),
        "error": "" if error is None else f"{error['message']} [{error['code']}]",
        "outcome": record["outcome"] + (f" (status {record['status']})" if record["status"] else ""),
    }
    width = max(map(len, rows)) + 2
    return "\n".join(f"{label:<{width}}{printable(value)}" for label, value in rows.items() if value)


def _count(value: int | None) -> str:
    return "" if value is None else str(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

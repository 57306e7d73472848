"""``unmask logs NAME``: what the engine of a model has written."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from unmask.cli import options, server_options
from unmask.cli.completion import complete_logged

_SECONDS = 1.0  # between two looks at a log that is followed

Name = Annotated[str, typer.Argument(help="The model, as 'unmask ps' names it.", autocompletion=complete_logged)]
Lines = Annotated[
    int, typer.Option("--lines", "-n", envvar="UNMASK_LINES", min=1, max=10_000, help="So many lines, the last ones.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", envvar="UNMASK_FOLLOW", help="Go on with what is added.")]


def logs(
    name: Name,
    lines: Lines = 50,
    follow: Follow = False,
    url: server_options.Url = server_options.DEFAULT_URL,
    api_key: server_options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Print the end of the log of the child that serves model NAME."""
    import msgspec

    from unmask.cli.server_client import ServerClient

    if json and follow:
        raise typer.BadParameter("it has no end, and JSON has.", param_hint="--follow")
    server = ServerClient(url, api_key)
    told = server.log(name, lines=lines)
    if json:
        typer.echo(msgspec.json.encode(told).decode())
        return
    _print(told, known_lost=0)
    while follow:
        time.sleep(_SECONDS)
        before, told = told, server.log(name, after=told["position"])
        _print(told, known_lost=before["lost"])


def _print(told: dict[str, Any], known_lost: int) -> None:
    """The lines, and how many more than are known of the disk did not take."""
    for line in told["lines"]:
        typer.echo(line)
    lost = told["lost"] - known_lost
    if lost > 0:
        typer.echo(f"--- {lost} line{'s were' if lost > 1 else ' was'} lost, which the disk did not take.")

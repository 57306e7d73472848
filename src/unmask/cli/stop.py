"""``unmask stop NAME``: take a model of a running server out of memory."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask.cli import options, server_options
from unmask.cli.completion import complete_served

Name = Annotated[str, typer.Argument(help="The model, as 'unmask ps' names it.", autocompletion=complete_served)]


def stop(
    name: Name,
    url: server_options.Url = server_options.DEFAULT_URL,
    api_key: server_options.ApiKey = None,
    json: options.Json = False,
) -> None:
    """Stop model NAME, whoever uses it, and wait until its memory is free. The next request loads it again."""
    import msgspec

    from unmask.cli.server_client import ServerClient
    from unmask.shown import printable

    told = ServerClient(url, api_key).stop(name)
    if json:
        typer.echo(msgspec.json.encode(told).decode())
        return
    called = f"'{printable(told['name'])}'"
    if told["was"] not in ("ready", "unreachable", "loading", "stopping"):
        typer.echo(f"{called} was not in memory.")
        return
    ended = ", ".join(
        f"{count} request{'s' * (count != 1)} that {what}"
        for count, what in ((told["users"], "it was answering"), (told["waiting"], "waited for it"))
        if count
    )
    typer.echo(f"Stopped {called}, which was {told['was']}." + (f" That ended {ended}." if ended else ""))

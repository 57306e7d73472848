"""Options of ``unmask serve`` that say who may use it, from where, and how long the server waits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from unmask.cli.options import seconds


def _host(names: list[str]) -> list[str]:
    for name in names:
        if re.fullmatch(r"[^\s:/]+|[0-9a-fA-F:.]+", name) is None:
            raise typer.BadParameter(f"'{name}' is no host name: no scheme, no port.")
    return names


def _origin(origins: list[str]) -> list[str]:
    for origin in origins:
        if re.fullmatch(r"\*|null|[a-z][a-z0-9+.-]*://[^/\s]*", origin) is None:
            raise typer.BadParameter(f"'{origin}' is no origin, like https://example.com or http://localhost:3000.")
    return origins


Keys = Annotated[Path | None, typer.Option(envvar="UNMASK_KEYS", help="File of API keys, see 'unmask keys'.")]
AllowedHost = Annotated[
    list[str],
    typer.Option(envvar="UNMASK_ALLOWED_HOST", callback=_host, help="Name that clients call this server; repeatable."),
]
AllowedOrigin = Annotated[
    list[str],
    typer.Option(
        envvar="UNMASK_ALLOWED_ORIGIN", callback=_origin, help="Site whose pages may use this server; repeatable."
    ),
]
Grace = Annotated[
    float,
    typer.Option(
        envvar="UNMASK_GRACE", callback=seconds, help="Seconds that running requests get when the server is to stop."
    ),
]
AccessLog = Annotated[bool, typer.Option(envvar="UNMASK_ACCESS_LOG", help="Log a line for each request.")]
MaxConnections = Annotated[
    int, typer.Option(envvar="UNMASK_MAX_CONNECTIONS", min=1, help="Connections open at once; more get a 503.")
]
ReceiveTimeout = Annotated[
    float,
    typer.Option(
        envvar="UNMASK_RECEIVE_TIMEOUT",
        min=1,
        callback=seconds,
        help="Seconds in which a request's headers, then its body, must arrive.",
    ),
]

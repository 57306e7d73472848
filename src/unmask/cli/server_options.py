"""Options of the verbs that talk to a running server."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_URL = "http://127.0.0.1:8000"

Url = Annotated[str, typer.Option(envvar="UNMASK_URL", help="Address of the running server.")]
ApiKey = Annotated[
    str | None,
    typer.Option(envvar="UNMASK_API_KEY", help="API key that may manage the server, if it wants one."),
]

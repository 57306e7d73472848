"""``unmask``: the commands, and the one place where errors become a message and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from unmask import __version__
from unmask.cli.run import run
from unmask.cli.serve import serve
from unmask.errors import UnmaskError

app = typer.Typer(
    help="Serve diffusion language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(run)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unmask {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Serve diffusion language models."""


def main() -> None:
    """Entry point: exit code 0 only on success; a known error is a message on stderr, never a traceback."""
    try:
        app()
    except UnmaskError as error:
        print(f"error: {error.message} [{error.code}]", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        sys.exit(1)

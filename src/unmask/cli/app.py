"""``unmask``: the commands."""

from __future__ import annotations

from typing import Annotated

import typer

from unmask import __version__
from unmask.cli.doctor import doctor
from unmask.cli.engine import app as engine
from unmask.cli.inspect import inspect
from unmask.cli.keys import app as keys
from unmask.cli.list_models import list_models
from unmask.cli.logs import logs
from unmask.cli.ps import ps
from unmask.cli.run import run
from unmask.cli.serve import serve
from unmask.cli.simulate import simulate
from unmask.cli.stop import stop
from unmask.cli.why import why

app = typer.Typer(
    help="Serve diffusion language models, and others through the engines that can.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(run)
app.command()(inspect)
app.command("list")(list_models)
app.command()(doctor)
app.command()(simulate)
for verb in (ps, stop, logs, why):
    app.command()(verb)
app.add_typer(keys, name="keys")
app.add_typer(engine, name="engine")


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
    """Serve diffusion language models, and others through the engines that can."""

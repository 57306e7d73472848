"""``unmask doctor``: whether Unmask can work here, and what to do if not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from unmask.cli import options

if TYPE_CHECKING:
    from unmask.cli.checks.finding import Finding

_SECONDS = 120.0  # more than any check gives itself


def doctor(context: typer.Context, json: options.Json = False) -> None:
    """Check this machine, what is installed, and the environment; say what to do about what is wrong."""
    import msgspec

    from unmask.cli.checks.finding import worst
    from unmask.cli.checks.variables import known_variables

    findings = _all(list(known_variables(context.find_root().command)))
    if json:
        typer.echo(msgspec.json.encode({"status": worst(findings), "checks": findings}).decode())
    else:
        typer.echo(_table(findings))
    if worst(findings) == "fail":
        raise typer.Exit(1)


def _all(known: list[str]) -> list[Finding]:
    """What all checks found, in their order; they run at once."""
    from unmask.cli.checks import machine, packages, server
    from unmask.cli.checks.finding import Finding
    from unmask.cli.checks.variables import variables
    from unmask.gateway.config.side_by_side import side_by_side

    checks: list[Callable[[], list[Finding]]] = [
        packages.python,
        packages.torch,
        machine.cores,
        machine.disks,
        machine.own_folder,
        machine.sessions,
        machine.processes,
        machine.loopback,
        server.lanes,
        packages.llama_cpp,
        server.embedded_model,
        packages.extras,
        server.configuration,
        server.port,
        lambda: variables(known),
    ]

    def late(check: Callable[[], list[Finding]]) -> list[Finding]:
        return [Finding(check.__name__, "fail", f"This check took over {_SECONDS:g} s.", "Is the machine overloaded?")]

    found = side_by_side(lambda check: check(), checks, late=late, seconds=_SECONDS)
    return [one for findings in found for one in findings]


def _table(findings: list[Finding]) -> str:
    """One line for each finding, and under it what to do."""
    from unmask.shown import printable

    width = max(len(one.check) for one in findings)
    lines = []
    for one in findings:
        lines.append(f"{one.status:<4}  {one.check:<{width}}  {printable(one.message)}")
        if one.remedy:
            lines.append(f"{'':<4}  {'':<{width}}  {printable(one.remedy)}")
    return "\n".join(lines)

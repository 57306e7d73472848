"""Variables of the environment that were meant for Unmask, and that nothing reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from unmask.cli.checks.finding import Finding

# Of no option: where Unmask's own folder is, and what an engine's process is told by the one that starts it.
_OTHERS = frozenset({"UNMASK_HOME", "UNMASK_ENGINE_OPTIONS"})


def known_variables(command: Any) -> Iterator[str]:
    """Those of the options of ``command`` and of all commands below it."""
    for parameter in command.params:
        names = parameter.envvar
        yield from [names] if isinstance(names, str) else names or []
    for inner in getattr(command, "commands", {}).values():
        yield from known_variables(inner)


def variables(known: Iterable[str]) -> list[Finding]:
    """The variables beginning with ``UNMASK_`` that are none of ``known``; their values are not shown."""
    names = {*known, *_OTHERS}
    given = sorted(name for name in os.environ if name.startswith("UNMASK_"))
    unknown = [name for name in given if name not in names]
    if not unknown:
        return [Finding("environment", "ok", f"{len(given)} variables are set" if given else "no variable is set")]
    return [_unknown(name, sorted(names)) for name in unknown]


def _unknown(name: str, names: list[str]) -> Finding:
    near = get_close_matches(name, names, n=1, cutoff=0.8)
    remedy = f"Did you mean {near[0]}?" if near else "Unset it, or look its name up in the documentation of commands."
    return Finding("environment", "warn", f"{name} is set, and no option reads it.", remedy)

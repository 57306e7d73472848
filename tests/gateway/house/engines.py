"""Engines that users made known, for servers that are started here."""

from __future__ import annotations

from pathlib import Path

from unmask.gateway.engine import Engine
from unmask.gateway.engine_probe import probe
from unmask.gateway.engine_registry import RegistryFile


def registered(data: Path, **programs: Path) -> None:
    """Make ``programs`` known by their names to all who have ``data`` as their ``XDG_DATA_HOME``."""
    for name, program in programs.items():
        kind, probed = probe("llama.cpp", program)
        with RegistryFile(data / "unmask" / "engines.json").changing() as changes:
            changes.registry = changes.registry.with_engine(Engine(name, kind, str(program), "a path", probed))

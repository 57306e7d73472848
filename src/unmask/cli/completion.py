"""What a shell proposes when the tab key is pressed: names of models and of engines, quickly, and never an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_MOST_FILES = 2000


def complete_models(incomplete: str) -> list[str]:
    """The embedded model, those of the file that ``UNMASK_CONFIG`` names, and directories and GGUF files."""
    from unmask.checkpoints.directory import EMBEDDED_MODEL

    names = [EMBEDDED_MODEL, *_configured(), *_files(incomplete)]
    return [name for name in dict.fromkeys(names) if name.startswith(incomplete)]


def complete_lanes(incomplete: str) -> list[str]:
    """The engines that are known here."""
    from unmask.errors import UnmaskError
    from unmask.gateway.lanes import known_lanes

    try:
        lanes = known_lanes()
    except UnmaskError:  # 'unmask engine list' tells why
        return []
    return [lane.name for lane in lanes if lane.name.startswith(incomplete)]


def _configured() -> Iterator[str]:
    file = os.environ.get("UNMASK_CONFIG")
    if not file:
        return
    from unmask.errors import InvalidConfigError
    from unmask.gateway.config.reading import read_config

    with suppress(InvalidConfigError):
        for entry in read_config(Path(file)).models:
            yield from entry.names


def _files(incomplete: str) -> list[str]:
    """What may be a model among the files whose paths begin so; a directory ends with a slash, to go on from there."""
    folder, begun = os.path.split(incomplete)
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            found = [entry for _, entry in zip(range(_MOST_FILES), entries, strict=False)]
    except OSError:
        return []
    hidden = begun.startswith(".")
    prefix = incomplete[: len(incomplete) - len(begun)]
    return sorted(
        f"{prefix}{entry.name}{'/' if entry.is_dir() else ''}"
        for entry in found
        if (entry.is_dir() or entry.name.endswith(".gguf")) and (hidden or not entry.name.startswith("."))
    )

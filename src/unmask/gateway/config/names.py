"""No two models answer to one name."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.errors import InvalidConfigError
from unmask.gateway.config.wanted import LocalSource, WantedModel


def check_names(entries: Iterable[WantedModel]) -> None:
    """Raises ``InvalidConfigError``, naming both, for two models with the same name, alias, or adapter's name."""
    owners: dict[str, WantedModel] = {}
    for entry in entries:
        for name in entry.names:
            owner = owners.setdefault(name, entry)
            if owner is not entry or entry.names.count(name) > 1:
                raise InvalidConfigError(
                    f"Two models answer to the name '{name}': {_told(owner)} and {_told(entry)}."
                    if owner is not entry
                    else f"{_told(entry)} has the name '{name}' twice.",
                    hint="Call one of them otherwise.",
                    param="models",
                )


def _told(entry: WantedModel) -> str:
    source = entry.source.model if isinstance(entry.source, LocalSource) else entry.source.url
    return f"'{entry.name}' ({source}; {entry.origin})" if entry.origin else f"'{entry.name}' ({source})"

"""Names of models as Ollama has them: what has no tag is ``latest``."""

from __future__ import annotations

from unmask.serving.house import House

_LATEST = ":latest"


def tagged(name: str) -> str:
    """``name`` with its tag; an adapter is one already."""
    return name if ":" in name else name + _LATEST


def plain(house: House, name: str | None) -> str | None:
    """``name`` as the server has it: its tag may have been added by a client."""
    return name if name is None or name in house.names else name.removesuffix(_LATEST)

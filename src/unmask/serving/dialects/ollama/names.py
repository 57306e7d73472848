"""Names of models as Ollama has them: what has no tag is ``latest``."""

from __future__ import annotations

from unmask.serving.house import House

_LATEST = ":latest"


def tagged(name: str) -> str:
    """``name`` with its tag; an adapter is one already."""
    return name if ":" in name else name + _LATEST


def plain(house: House, name: str | None) -> str | None:
    """``name`` as the server has it: the tag ``latest`` may have been added by a client, or left out."""
    if name is None or house.knows(name):
        return name
    return next(filter(house.knows, (name.removesuffix(_LATEST), name + _LATEST)), name)

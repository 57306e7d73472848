"""Where an engine process keeps its prefixes from one life to the next. No torch here."""

from __future__ import annotations

import os
from dataclasses import dataclass

import msgspec

_VARIABLE = "UNMASK_ENGINE_SESSIONS"


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """A ``directory``, and how many bytes all that is kept there may take."""

    directory: str
    most_bytes: int

    def as_environment(self) -> dict[str, str]:
        """The environment variable that the engine process reads."""
        return {_VARIABLE: msgspec.json.encode(self).decode()}

    @classmethod
    def from_environment(cls) -> SessionPlace | None:
        """What ``as_environment`` wrote; None if nothing is to be kept."""
        text = os.environ.get(_VARIABLE)
        return None if text is None else msgspec.json.decode(text, type=SessionPlace)

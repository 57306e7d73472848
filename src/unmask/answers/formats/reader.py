"""What a reader of one tool call is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto


class State(Enum):
    """How far a call has come. ``FAILED``: it is none, and nothing of it was shown; ``DONE``: no more of it comes."""

    READING = auto()
    DONE = auto()
    FAILED = auto()


class CallReader(ABC):
    """Reads one call. Its ``name`` is set as soon as it is certain to be one, with arguments to come or not."""

    def __init__(self) -> None:
        self.state = State.READING
        self.name: str | None = None
        self._fragments: list[str] = []

    @property
    def complete(self) -> bool:
        """Whether all arguments are there."""
        return self.state is State.DONE

    @abstractmethod
    def read(self, text: str, at: int, final: bool) -> int:
        """Read ``text`` from ``at`` on; the place up to which it was read.

        The rest cannot be told yet, and must be given again with what follows it; of text that is ``final`` there is no
        such rest, unless the call ended before.
        """

    def take(self) -> str:
        """The JSON text of arguments that became certain since it was last asked."""
        fragment = "".join(self._fragments)
        self._fragments.clear()
        return fragment

"""The texts of a lane's tokens. A lane tells texts, and ids not always: here each text has a number of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

MASK = 0
_MOST_GUESSES = 64  # more frames than ever wait to be sent


class Spellings:
    """Numbers for the texts of one response; what ``CellDecoder`` is to our own engine's tokens."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, bytes], int] = {}
        self._spelled: list[tuple[str, list[int]]] = [("", [])]
        self._guesses: OrderedDict[int, str] = OrderedDict()
        self._guessed = 0

    def number(self, text: str, spelled: bytes) -> int:
        """The number of a token with this text and these bytes: those of a part of a character make no text."""
        key = text, spelled
        if key not in self._numbers:
            self._numbers[key] = len(self._spelled)
            self._spelled.append((text, list(spelled)))
        return self._numbers[key]

    def guess(self, text: str) -> int:
        """A number, below 0, for a whole text that is not certain; it is forgotten after the next few."""
        self._guessed -= 1
        self._guesses[self._guessed] = text
        if len(self._guesses) > _MOST_GUESSES:
            self._guesses.popitem(last=False)
        return self._guessed

    def spell(self, token_id: int) -> tuple[str, list[int]]:
        """The text of a token by itself, and its bytes."""
        return self._spelled[token_id]

    def decode(self, canvas: Sequence[int]) -> list[str | None]:
        """Each cell's own text; None for one that is still masked."""
        return [None if number == MASK else self._guesses.get(number, "") for number in canvas]

    prose = decode

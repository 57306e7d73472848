"""The texts of an answer's tokens, one by one: for log-probabilities, and for canvas frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Cells(Protocol):
    """Texts by token id. The ids are the engine's own; only whoever reads its answers knows them."""

    def spell(self, token_id: int) -> tuple[str, list[int]]:
        """The text of a token by itself, and its bytes: those of a part of a character make no text of their own."""

    def decode(self, canvas: Sequence[int]) -> list[str | None]:
        """Each cell's own text; None for one that is still masked."""

    def prose(self, canvas: Sequence[int]) -> list[str | None]:
        """Each cell's part of the text: as ``decode`` has it, but nothing of special tokens."""

"""Block arithmetic: where blocks begin and end on a request's positions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks of ``block_length`` positions, counted from ``anchor`` on; the last one may be cut at ``length``."""

    anchor: int
    block_length: int
    length: int

    def block_end(self, position: int) -> int:
        """One past the last position of the block that holds ``position``."""
        block = (position - self.anchor) // self.block_length
        return min(self.anchor + (block + 1) * self.block_length, self.length)

    @classmethod
    def covering(cls, anchor: int, block_length: int, tokens: int, context_length: int) -> Grid:
        """Whole blocks for ``tokens`` positions behind ``anchor``, as far as ``context_length`` allows."""
        blocks = -(-tokens // block_length)
        return cls(anchor, block_length, min(anchor + blocks * block_length, context_length))

"""Block arithmetic: where blocks begin and end on a request's positions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.params import Anchor


@dataclass(frozen=True, slots=True)
class Grid:
    """Blocks of ``block_length`` positions, counted from ``anchor`` on; the last one may be cut at ``length``.

    What stands left of the anchor is one block too.
    """

    anchor: int
    block_length: int
    length: int

    def block_end(self, position: int) -> int:
        """One past the last position of the block that holds ``position``."""
        if position < self.anchor:
            return self.anchor
        block = (position - self.anchor) // self.block_length
        return min(self.anchor + (block + 1) * self.block_length, self.length)

    def block_ends(self, start: int, end: int) -> NDArray[np.int64]:
        """``block_end`` of every position from ``start`` to ``end``, [end - start]."""
        offsets = np.arange(start, end) - self.anchor
        ends = self.anchor + (offsets // self.block_length + 1) * self.block_length
        return np.where(offsets < 0, self.anchor, np.minimum(ends, self.length))

    def visible(self, start: int, end: int) -> NDArray[np.int64] | None:
        """Up to where each row sees: the end of its own block; None if that is ``end`` for all of them."""
        return None if self.block_end(start) == end else self.block_ends(start, end)

    @classmethod
    def covering(cls, prompt: int, anchor: Anchor, block_length: int, tokens: int, context_length: int) -> Grid:
        """Whole blocks for ``tokens`` positions behind a ``prompt`` of so many, as far as ``context_length`` allows."""
        first = prompt if anchor == "prompt_end" else 0
        blocks = -(-(prompt - first + tokens) // block_length)
        return cls(first, block_length, min(first + blocks * block_length, context_length))

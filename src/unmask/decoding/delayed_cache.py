"""The delayed cache under full attention: dKV-Cache-Decode (arXiv 2505.15781).

A token's keys and values jump when it is decided and move little from then on. So they are kept one forward after
that: each forward computes the positions that are masked, in all blocks, and those decided in the forward before; the
others are seen as they were last computed. Counted from a block's beginning, its first two forwards and every
``refresh_interval``-th compute everything, as in the authors' code. With shifted logits the row that predicts a masked
position is computed too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Canvas, Positions
from unmask.params import DecodingParams, ModelInfo


class DelayedCache:
    """Which positions of one request a forward must compute."""

    def __init__(self, canvas: Canvas, params: DecodingParams, model: ModelInfo) -> None:
        self._canvas = canvas
        self._interval = params.refresh_interval
        self._shifted = model.shifted
        self._fresh: Positions = []

    def uncached(self, step: int) -> NDArray[np.int64] | None:
        """The positions that forward ``step`` of a block computes, ascending; None if that is all of them."""
        if step < 2 or step % self._interval == 0:
            return None
        computed = self._canvas.masked.copy()
        if self._shifted:
            computed[:-1] |= self._canvas.masked[1:]
        computed[self._fresh] = True
        return np.flatnonzero(computed)

    def decided(self, positions: Positions) -> None:
        """A forward has decided (or changed) the tokens at ``positions``."""
        self._fresh = positions

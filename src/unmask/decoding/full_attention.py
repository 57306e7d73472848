"""Decoding under full attention: the whole canvas is there from the start, its blocks are denoised left to right.

Without a cache every forward computes prompt and canvas (ML-GSAI ``generate``, Fast-dLLM ``generate``). The two
approximate caches of Fast-dLLM (arXiv 2505.22618, at commit 620b34f) refresh everything in the first forward of a
block; the block's later forwards recompute it and all that follows (``prefix``), or the block alone (``dual``).
"""

from __future__ import annotations

import numpy as np

from unmask.decoding.canvas import Canvas
from unmask.decoding.windows import Segment, Window, static_quota
from unmask.params import DecodingParams


class FullAttentionDenoiser:
    """The denoiser of one request under full attention."""

    def __init__(self, canvas: Canvas, params: DecodingParams) -> None:
        self.canvas = canvas
        self.params = params
        self.start = canvas.prompt_length
        self.step_in_block = 0
        self.blocks_begun = 1

    @property
    def most_rows(self) -> int:
        """Some windows hold everything."""
        return self.canvas.length

    def next_window(self) -> Window:
        """The current block, with as much around it as the cache mode recomputes."""
        end = self.canvas.grid.block_end(self.start)
        assert self.start < end, "a request without masks left should have ended"
        quota = static_quota(end - self.start, min(self.params.steps, end - self.start), self.step_in_block)
        segment = Segment(self.start, end, quota, activated=True)
        length = self.canvas.length
        if self.params.cache == "none" or self.step_in_block == 0:
            return Window(0, length, length, None, [segment], left=self.start - 1)
        end = end if self.params.cache == "dual" else length
        return Window(self.start, end, length, None, [segment], left=self.start - 1)

    def apply(self, positions: list[int], tokens: list[int]) -> None:
        """Commit; move on to the next block when this one has no masks."""
        self.canvas.commit(positions, tokens)
        self.step_in_block += 1
        end = self.canvas.grid.block_end(self.start)
        if not np.any(self.canvas.masked[self.start : end]):
            self.start, self.step_in_block = end, 0
            self.blocks_begun += self.start < self.canvas.length

"""Decoding under full attention: the whole canvas is there from the start, its blocks are denoised left to right.

Without a cache every forward computes prompt and canvas (ML-GSAI ``generate``, Dream ``diffusion_generate``,
Fast-dLLM ``generate``). The two approximate caches of Fast-dLLM (arXiv 2505.22618, at commit 620b34f) refresh
everything in the first forward of a block; the block's later forwards recompute it and all that follows
(``prefix``), or the block alone (``dual``). With shifted logits the refreshing forward commits the block's first
token only, whose predicting row lies left of the block (Fast-dLLM's Dream). ``delayed`` is described in
``delayed_cache.py``.
"""

from __future__ import annotations

import numpy as np

from unmask.decoding.canvas import Canvas
from unmask.decoding.delayed_cache import DelayedCache
from unmask.decoding.pace import AT_ONCE, pace
from unmask.decoding.windows import Decision, Segment, Window, shadows
from unmask.params import RULE_TRAITS, DecodingParams, ModelInfo


class FullAttentionDenoiser:
    """The denoiser of one request under full attention. Nothing of what it computes is exact, or stays."""

    unit = 0
    divisible = False
    cached = 0
    final = 0
    prefill_rows = 0
    uncut_room = 0

    def __init__(self, canvas: Canvas, params: DecodingParams, model: ModelInfo) -> None:
        self.canvas = canvas
        self.params = params
        self.start = canvas.prompt_length
        self.step_in_block = 0
        self.blocks_begun = 1
        self._traits = RULE_TRAITS[params.rule]
        if self._traits.revises:
            canvas.settled = self.start
        self._opens_with_one = model.shifted and params.cache in ("prefix", "dual")
        self._delayed = DelayedCache(canvas, params, model) if params.cache == "delayed" else None

    @property
    def coming_end(self) -> int:
        """Attention goes to everything."""
        return self.canvas.length

    @property
    def interruptible(self) -> bool:
        """A block's first forward computes everything anew."""
        return self.params.cache == "none" or self.step_in_block == 0

    @property
    def most_rows(self) -> int:
        """Some windows hold everything."""
        return self.canvas.length + self.params.shadow_rows

    @property
    def most_forwards(self) -> int:
        """Rules with a schedule take at most as many forwards as positions; others commit something in each."""
        return self.canvas.length - self.canvas.prompt_length

    def restart(self, cached: int) -> None:
        """Where it may be called there is nothing to lose."""

    def next_window(self, room: int) -> Window:
        """The current block, with as much around it as the cache mode recomputes."""
        window = self._window()
        if self._traits.shadows:
            window.shadows = shadows(self.canvas, self.start, window.segments[0].end)
        return window

    def _window(self) -> Window:
        start, end, length = self.start, self.canvas.grid.block_end(self.start), self.canvas.length
        assert start < end, "a request without masks left should have ended"
        if self._delayed is not None:
            chosen = self._delayed.uncached(self.step_in_block)
            return Window(0, length, length, None, [self._segment(end, length)], left=-1, chosen=chosen)
        if self.params.cache == "none" or self.step_in_block == 0:
            segment = Segment(start, start + 1, AT_ONCE) if self._opens_with_one else self._segment(end, length)
            return Window(0, length, length, None, [segment], left=start - 1)
        window_end = end if self.params.cache == "dual" else length
        return Window(start, window_end, length, None, [self._segment(end, window_end)], left=start - 1)

    def apply(self, decision: Decision) -> int:
        """Commit; move on to the next block when this one has no masks."""
        newly = self.canvas.commit(decision.positions, decision.tokens) - self.canvas.remask(decision.masked_again)
        if self._delayed is not None:
            self._delayed.decided(decision.positions)
        self.step_in_block += 1
        end = self.canvas.grid.block_end(self.start)
        if not np.any(self.canvas.masked[self.start : end]):
            self.start, self.step_in_block = end, 0
            self.blocks_begun += self.start < self.canvas.length
            if self._traits.revises:
                self.canvas.settled = self.start
        return newly

    def _segment(self, end: int, window_end: int) -> Segment:
        masks = self.canvas.masked
        masked = int(np.count_nonzero(masks[self.start : end]))
        step = pace(self.params, end - self.start, masked, self.step_in_block)
        segment = Segment(self.start, end, step, revises=self._traits.revises)
        if self._traits.looks_ahead:
            segment.reach = window_end
            segment.progress = 1 - float(masks[self.canvas.prompt_length :].mean())
        return segment

"""Decoding under block-causal attention: the D2F block pipeline (arXiv 2508.09192, reference evaluation code).

Blocks are counted from the prompt's end; the prompt itself is block 0, bidirectional. Several blocks may be
denoised at once: a new one is opened when the last is decided to ``add_threshold``, and it becomes *full*
(commits at least one token per forward) when its predecessor reaches ``activate_threshold``. With both at 1,
one block is denoised at a time: plain semi-autoregressive decoding.

A finished block costs no forward of its own: its final keys and values are computed inside the next step's
window and are exact from then on. Differences from the reference, none of which changes the text: blocks
right of a committed end token are dropped, and decoding ends once all text is decided. At most
``max_live_blocks`` are open at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Canvas
from unmask.decoding.windows import Segment, Window, static_quota
from unmask.params import DecodingParams


class BlockState(Enum):
    """Where a block stands."""

    ACTIVE = "has masks, or waits behind a block that has"
    TO_CACHE = "final; the next forward computes its keys and values for good"
    IN_CACHE = "its keys and values are exact and never change"


@dataclass(slots=True)
class Block:
    """Positions ``start`` .. ``end``; ``steps`` counts the forwards it took part in while it had masks."""

    start: int
    end: int
    masked: int
    state: BlockState
    full: bool
    steps: int = 0

    @property
    def progress(self) -> float:
        """Share of decided positions."""
        return (self.end - self.start - self.masked) / (self.end - self.start)


class BlockPipeline:
    """The denoiser of one request under block-causal attention."""

    def __init__(self, canvas: Canvas, params: DecodingParams) -> None:
        self.canvas = canvas
        self.params = params
        self.blocks = [Block(0, canvas.prompt_length, 0, BlockState.TO_CACHE, full=True)]
        self.cached = 0

    @property
    def blocks_begun(self) -> int:
        """Number of canvas blocks opened so far."""
        return len(self.blocks) - 1

    @property
    def blocks_done(self) -> int:
        """Number of canvas blocks without masks."""
        return sum(not block.masked for block in self.blocks) - 1

    @property
    def max_rows(self) -> int:
        """The first window holds the prompt; later ones the live blocks and those on their way to the cache."""
        live = self.params.max_live_blocks * self.params.block_length
        canvas = self.canvas
        first = canvas.length if self.params.cache == "none" else canvas.prompt_length + live
        return min(canvas.length, max(first, 2 * live))

    def window(self) -> Window:
        """Open and promote blocks, then compute everything that is not in the cache."""
        self._open()
        self._promote()
        live = [block for block in self.blocks if block.state is BlockState.ACTIVE and block.masked]
        assert live, "a request without masks left should have ended"
        start = 0 if self.params.cache == "none" else self.cached
        end = self.blocks[-1].end
        segments = [self._segment(block) for block in live]
        return Window(start, end, end, self._visible(start), segments, left=self._next_cached() - 1)

    def apply(self, positions: list[int], tokens: list[int]) -> None:
        """Commit, count masks, retire finished blocks in order; drop what stands right of an end token."""
        self.cached = self._next_cached()
        for block in self.blocks:
            if block.state is BlockState.TO_CACHE:
                block.state = BlockState.IN_CACHE
            elif block.state is BlockState.ACTIVE:
                block.steps += block.masked > 0
        self.canvas.commit(positions, tokens)
        if self.canvas.end is not None:
            self._drop_right_of(self.canvas.end)
        for block in self.blocks:
            if block.state is BlockState.ACTIVE:
                block.masked = int(np.count_nonzero(self.canvas.masked[block.start : block.end]))
        self._retire()

    def _next_cached(self) -> int:
        """End of the exact keys and values once the coming forward has run."""
        return max((block.end for block in self.blocks if block.state is not BlockState.ACTIVE), default=0)

    def _open(self) -> None:
        """At most one new block per step, behind the last one."""
        last = self.blocks[-1]
        live = sum(block.state is BlockState.ACTIVE for block in self.blocks)
        if (
            last.end < self.canvas.length
            and self.canvas.end is None
            and live < self.params.max_live_blocks
            and last.progress >= self.params.add_threshold
        ):
            end = min(last.end + self.params.block_length, self.canvas.length)
            self.blocks.append(Block(last.end, end, end - last.end, BlockState.ACTIVE, full=False))

    def _promote(self) -> None:
        for block, successor in zip(self.blocks, self.blocks[1:], strict=False):
            if block.progress >= self.params.activate_threshold:
                successor.full = True

    def _retire(self) -> None:
        for block in self.blocks:
            if block.state is BlockState.ACTIVE:
                if block.masked:
                    return
                block.state = BlockState.TO_CACHE

    def _drop_right_of(self, end: int) -> None:
        while self.blocks[-1].start > end:
            self.blocks.pop()

    def _segment(self, block: Block) -> Segment:
        length = block.end - block.start
        quota = static_quota(length, min(self.params.steps, length), block.steps)
        return Segment(block.start, block.end, quota, block.full)

    def _visible(self, start: int) -> NDArray[np.int64] | None:
        """A row sees up to the end of its own block."""
        inside = [block for block in self.blocks if block.end > start]
        if len(inside) == 1:
            return None
        ends = [block.end for block in inside]
        return np.repeat(np.array(ends), np.diff([start, *ends]))

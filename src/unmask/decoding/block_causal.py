"""Decoding under block-causal attention: the D2F block pipeline (arXiv 2508.09192, reference evaluation code).

Blocks are counted from the prompt's end; the prompt itself is block 0, bidirectional. Several blocks may be
denoised at once: a new one is opened when the last is decided to ``add_threshold``, and it becomes *activated*
(commits at least one token per forward) when its predecessor reaches ``activate_threshold``. With both at 1,
one block is denoised at a time: plain semi-autoregressive decoding.

A finished block costs no forward of its own: its final keys and values are computed inside the next step's
window and are exact from then on. Differences from the reference, none of which changes the text: blocks
right of a committed end token are dropped, and decoding ends with the end token's block. At most
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
    activated: bool
    steps: int = 0

    @property
    def progress(self) -> float:
        """Share of decided positions."""
        return (self.end - self.start - self.masked) / (self.end - self.start)


class BlockCausalDenoiser:
    """The denoiser of one request under block-causal attention.

    ``blocks`` are those that matter to the next forward, in order: the last one in the cache (if any), those on
    their way there, then the active ones. ``cached`` is the end of the exact keys and values.
    """

    def __init__(self, canvas: Canvas, params: DecodingParams) -> None:
        self.canvas = canvas
        self.params = params
        self.blocks = [Block(0, canvas.prompt_length, 0, BlockState.TO_CACHE, activated=True)]
        self.blocks_begun = 0
        self.cached = 0

    @property
    def most_rows(self) -> int:
        """First the prompt with the first block; later the live blocks and as many on their way to the cache."""
        if self.params.cache == "none":
            return self.canvas.length
        live = self.params.max_live_blocks * self.params.block_length
        return min(self.canvas.length, max(self.canvas.prompt_length * (not self.cached) + live, 2 * live))

    def next_window(self) -> Window:
        """Open and promote blocks, then compute everything that is not in the cache."""
        self._open()
        for block, successor in zip(self.blocks, self.blocks[1:], strict=False):
            successor.activated |= block.progress >= self.params.activate_threshold
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
        while self.canvas.end is not None and self.blocks[-1].start > self.canvas.end:
            self.blocks.pop()
        for block in self.blocks:
            if block.state is BlockState.ACTIVE:
                block.masked = int(np.count_nonzero(self.canvas.masked[block.start : block.end]))
        self._retire()
        while len(self.blocks) > 1 and self.blocks[1].state is BlockState.IN_CACHE:
            del self.blocks[0]

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
            end = self.canvas.grid.block_end(last.end)
            self.blocks.append(Block(last.end, end, end - last.end, BlockState.ACTIVE, activated=False))
            self.blocks_begun += 1

    def _retire(self) -> None:
        for block in self.blocks:
            if block.state is BlockState.ACTIVE:
                if block.masked:
                    return
                block.state = BlockState.TO_CACHE

    def _next_cached(self) -> int:
        """End of the exact keys and values once the coming forward has run."""
        return max((block.end for block in self.blocks if block.state is not BlockState.ACTIVE), default=0)

    def _segment(self, block: Block) -> Segment:
        length = block.end - block.start
        quota = static_quota(length, min(self.params.steps, length), block.steps)
        return Segment(block.start, block.end, quota, block.activated)

    def _visible(self, start: int) -> NDArray[np.int64] | None:
        """A row sees up to the end of its own block; without a cache, cached blocks are rows too."""
        ends = [block.end for block in self.blocks if block.end > start]
        if start < self.blocks[0].start:
            ends = self._cached_ends() + ends
        if len(ends) == 1:
            return None
        return np.repeat(np.array(ends), np.diff([start, *ends]))

    def _cached_ends(self) -> list[int]:
        """Ends of the prompt and of the blocks left of ``blocks``."""
        step = self.params.block_length
        return [*range(self.canvas.prompt_length, self.blocks[0].start, step), self.blocks[0].start]

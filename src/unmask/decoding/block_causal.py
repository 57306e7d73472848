"""Decoding under block-causal attention: the D2F block pipeline (arXiv 2508.09192, reference evaluation code).

Blocks are counted from the prompt's end, which is a block of its own then, or from position 0 on (LLaDA2, SDAR):
then the prompt's last, partial block is denoised together with the first generated tokens. Several blocks may be
denoised at once: a new one is opened when the last is decided to ``add_threshold``, and it becomes *activated*
(commits at least one token per forward) when its predecessor reaches ``activate_threshold``. With both at 1,
one block is denoised at a time: plain semi-autoregressive decoding.

A finished block costs no forward of its own: its final keys and values are computed inside the next step's
window and are exact from then on. Where blocks are counted from position 0 on, a long prompt may be computed in several
forwards before the first block is opened; so may what an evicted request has lost. Differences from the reference,
none of which changes the text: blocks right of a committed end token are dropped, and decoding ends with the end
token's block. At most ``max_live_blocks`` are open at once.

Under ``joint_threshold`` (LLaDA2.1) a block's committed tokens may be edited as long as it is live: when its masks
are gone it goes on until a forward edits nothing, or for ``max_edit_steps`` forwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from unmask.decoding.canvas import Canvas
from unmask.decoding.pace import pace
from unmask.decoding.windows import Decision, Segment, Window, shadows
from unmask.params import RULE_TRAITS, DecodingParams, ModelInfo


class BlockState(Enum):
    """Where a block stands."""

    ACTIVE = "has masks or may be edited, or waits behind a block that is so"
    TO_CACHE = "final; the next forward computes its keys and values for good"
    IN_CACHE = "its keys and values are exact and never change"


@dataclass(slots=True)
class Block:
    """Positions ``start`` .. ``end``; ``steps`` counts the forwards it took part in while it had masks.

    ``edit_steps`` are the forwards left in which its tokens may be edited once it has no masks.
    """

    start: int
    end: int
    masked: int
    state: BlockState
    activated: bool
    steps: int = 0
    edit_steps: int = 0

    @property
    def live(self) -> bool:
        """Whether forwards may still change it."""
        return self.state is BlockState.ACTIVE and (self.masked > 0 or self.edit_steps > 0)

    @property
    def progress(self) -> float:
        """Share of decided positions."""
        return 1 - self.masked / (self.end - self.start) if self.masked else 1.0


class BlockCausalDenoiser:
    """The denoiser of one request under block-causal attention.

    ``blocks`` are those that matter to the next forward, in order: the last one in the cache (if any), those on
    their way there, then the active ones. ``cached`` is the end of the exact keys and values.
    """

    interruptible = True  # what is live is computed anew in every forward

    def __init__(self, canvas: Canvas, params: DecodingParams, model: ModelInfo) -> None:
        self.canvas = canvas
        self.params = params
        self._first = canvas.prompt_length - (canvas.prompt_length - canvas.grid.anchor) % params.block_length
        self.blocks = [Block(0, self._first, 0, BlockState.TO_CACHE, activated=True)]
        self.blocks_begun = 0
        self.cached = 0
        self.divisible = model.anchor == "start" and params.cache != "none"
        self.unit = 0 if params.cache == "none" else params.block_length if model.anchor == "start" else None
        self._edits = RULE_TRAITS[params.rule].edits
        self._revises = RULE_TRAITS[params.rule].revises
        self._live_rows = params.max_live_blocks * params.block_length
        self._prefill_end = self._first if params.cache != "none" else 0
        self._chunk_end = 0
        self._opened = False  # for the coming forward

    @property
    def final(self) -> int:
        """Everything left of the active blocks."""
        return self._next_cached()

    @property
    def coming_end(self) -> int:
        """One block may be opened behind the last."""
        return min(self.blocks[-1].end + self.params.block_length, self.canvas.length)

    @property
    def prefill_rows(self) -> int:
        """What is final and has not been computed, or not been kept."""
        return max(self._prefill_end - self.cached, 0)

    @property
    def uncut_room(self) -> int:
        """All blocks that may be live stand behind the prefill."""
        return self.prefill_rows + self._live_rows + self.params.shadow_rows

    @property
    def most_rows(self) -> int:
        """The live blocks and as many on their way to the cache."""
        rows = self.canvas.length if self.params.cache == "none" else min(self.canvas.length, 2 * self._live_rows)
        return rows + self.params.shadow_rows

    @property
    def most_forwards(self) -> int:
        """As many as a block has positions, the prompt's among them, and its edit steps."""
        blocks = -(-(self.canvas.length - self._first) // self.params.block_length)
        return self.canvas.length - self._first + blocks * self.params.max_edit_steps * self._edits

    def restart(self, cached: int) -> None:
        """Everything left of the active blocks is on its way to the cache again, but what is there."""
        active = [block for block in self.blocks if block.state is BlockState.ACTIVE]
        self._prefill_end = self._next_cached() if self.params.cache != "none" else 0
        self.blocks = [Block(0, self._next_cached(), 0, BlockState.TO_CACHE, activated=True), *active]
        self.cached = cached

    def next_window(self, room: int) -> Window:
        """Open and promote blocks, then compute everything that is not in the cache."""
        if self.divisible and self.prefill_rows and room < self.uncut_room:
            return self._chunk(room)
        self._open()
        for block, successor in zip(self.blocks, self.blocks[1:], strict=False):
            successor.activated |= block.progress >= self.params.activate_threshold
        live = [block for block in self.blocks if block.live]
        assert live, "a request that is all final should have ended"
        if self._revises:
            self.canvas.settled = live[0].start
        start = 0 if self.params.cache == "none" else self.cached
        end = self.blocks[-1].end
        segments = [self._segment(block) for block in live]
        window = Window(start, end, end, self.canvas.grid.visible(start, end), segments, left=self._next_cached() - 1)
        if self.params.shadow_rows:
            window.shadows = shadows(self.canvas, live[0].start, end)
        return window

    def apply(self, decision: Decision) -> int:
        """Commit, count masks, retire finished blocks in order; drop what stands right of an end token."""
        if self._chunk_end:
            self.cached, self._chunk_end = self._chunk_end, 0
            return 0
        self._opened = False
        self.cached = self._next_cached()
        for block in self.blocks:
            if block.state is BlockState.TO_CACHE:
                block.state = BlockState.IN_CACHE
            elif block.state is BlockState.ACTIVE:
                block.steps += block.masked > 0
        committed = self.canvas.commit(decision.positions, decision.tokens)
        newly = committed - self.canvas.remask(decision.masked_again)
        while self.canvas.end is not None and self.blocks[-1].start > self.canvas.end:
            self.blocks.pop()
        for block in self.blocks:
            if block.live:
                self._count(block, edited=committed < len(decision.positions))
        self._retire()
        while len(self.blocks) > 1 and self.blocks[1].state is BlockState.IN_CACHE:
            del self.blocks[0]
        return newly

    def _chunk(self, room: int) -> Window:
        """As many whole blocks of the prefill as ``room`` allows."""
        length = self.params.block_length
        self._chunk_end = min((self.cached + room) // length * length, self._prefill_end)
        visible = self.canvas.grid.visible(self.cached, self._chunk_end)
        return Window(self.cached, self._chunk_end, self._chunk_end, visible, [], left=self._chunk_end - 1)

    def _open(self) -> None:
        """At most one new block per step, behind the last one."""
        if self._opened:
            return
        self._opened = True
        last = self.blocks[-1]
        active = sum(block.state is BlockState.ACTIVE for block in self.blocks)
        if (
            last.end < self.canvas.length
            and self.canvas.end is None
            and active < self.params.max_live_blocks
            and last.progress >= self.params.add_threshold
        ):
            end = self.canvas.grid.block_end(last.end)
            masked = int(np.count_nonzero(self.canvas.masked[last.end : end]))
            edit_steps = self.params.max_edit_steps if self._edits else 0
            self.blocks.append(Block(last.end, end, masked, BlockState.ACTIVE, activated=False, edit_steps=edit_steps))
            self.blocks_begun += 1

    def _count(self, block: Block, edited: bool) -> None:
        """A live block after a forward: its masks, and whether editing goes on."""
        if not block.masked:
            block.edit_steps = block.edit_steps - 1 if edited else 0
        block.masked = int(np.count_nonzero(self.canvas.masked[block.start : block.end]))

    def _retire(self) -> None:
        for block in self.blocks:
            if block.live:
                return
            if block.state is BlockState.ACTIVE:
                block.state = BlockState.TO_CACHE
                if self._revises:
                    self.canvas.settled = block.end

    def _next_cached(self) -> int:
        """End of the exact keys and values once the coming forward has run."""
        return max((block.end for block in self.blocks if block.state is not BlockState.ACTIVE), default=0)

    def _segment(self, block: Block) -> Segment:
        step = pace(self.params, block.end - block.start, block.masked, block.steps)
        return Segment(block.start, block.end, step, block.activated, self._revises, progress=block.progress)

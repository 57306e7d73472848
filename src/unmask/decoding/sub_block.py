"""Decoding in sub-blocks of a block, with shifted logits: Fast-dLLM v2 (arXiv 2509.26328, ``generate``).

Blocks are counted from position 0. A block's first token comes from the row left of it: one forward over the finished
block (at first, the prompt's whole blocks) computes its keys and values for good and commits that token. Then the
sub-blocks are denoised left to right, each forward computing the whole block, or with cache ``dual`` the sub-block
alone once its first token is known (the rest of the block is then as the sub-block's first forward left it).
Other than in the reference, a prompt of exactly one block is attended like any other.
"""

from __future__ import annotations

from unmask.decoding.canvas import Canvas
from unmask.decoding.pace import AT_ONCE, pace
from unmask.decoding.windows import Decision, Segment, Window
from unmask.params import DecodingParams, ModelInfo


class SubBlockDenoiser:
    """The denoiser of one request. ``cached`` is the end of the exact keys and values."""

    divisible = True

    def __init__(self, canvas: Canvas, params: DecodingParams, model: ModelInfo) -> None:
        self.canvas = canvas
        self.params = params
        self.start = canvas.prompt_length // params.block_length * params.block_length
        self.cached = 0
        self.unit = params.block_length
        self.blocks_begun = 1
        self._chunk_end = 0
        self._step_in_block = 0
        self._refreshed = -1  # the sub-block for which the whole block has been computed

    @property
    def final(self) -> int:
        """Everything left of the current block."""
        return self.start

    @property
    def coming_end(self) -> int:
        """The current block's end."""
        return self.canvas.grid.block_end(self.start)

    @property
    def interruptible(self) -> bool:
        """Cache ``dual`` remembers a sub-block's neighbours as they were."""
        return self.params.cache != "dual" or bool(self.canvas.masked[self.start])

    @property
    def prefill_rows(self) -> int:
        """What is final and has not been computed, or not been kept."""
        return self.start - self.cached

    @property
    def uncut_room(self) -> int:
        """A block's first token takes no rows of the block."""
        opening = self.canvas.masked[self.start]
        return self.prefill_rows + (0 if opening else self.coming_end - self.start)

    @property
    def most_rows(self) -> int:
        """One block."""
        return self.params.block_length

    @property
    def most_forwards(self) -> int:
        """Every forward commits a token."""
        return self.canvas.length - self.canvas.prompt_length

    def restart(self, cached: int) -> None:
        """What is final, and the current block, will be computed again."""
        self.cached = cached
        self._refreshed = -1

    def next_window(self, room: int) -> Window:
        """What is final but not in the cache, then the block or its sub-block."""
        start, end = self.start, self.canvas.grid.block_end(self.start)
        masked = self.canvas.masked[start:end]
        assert masked.any(), "a request without masks left should have ended"
        if self.prefill_rows and room < self.uncut_room:
            return self._chunk(room)
        if masked[0]:
            segment = Segment(start, start + 1, AT_ONCE)
            return Window(
                self.cached, start, start, self.canvas.grid.visible(self.cached, start), [segment], left=start - 1
            )
        length = self.params.sub_block_length
        sub = start + int(masked.argmax()) // length * length
        sub_end = min(sub + length, end)
        segment = Segment(sub, sub_end, pace(self.params, end - start, int(masked.sum()), self._step_in_block))
        segment.progress = 1 - float(self.canvas.masked[sub:sub_end].mean())
        if self.params.cache == "dual" and self._refreshed == sub and not self.canvas.masked[sub]:
            return Window(sub, sub_end, end, None, [segment], left=sub - 1)
        self._refreshed = sub
        return Window(self.cached, end, end, self.canvas.grid.visible(self.cached, end), [segment], left=start - 1)

    def apply(self, decision: Decision) -> int:
        """Commit; move on to the next block when this one has no masks."""
        if self._chunk_end:
            self.cached, self._chunk_end = self._chunk_end, 0
            return 0
        opening = self.canvas.masked[self.start]
        self.cached = self.start
        newly = self.canvas.commit(decision.positions, decision.tokens)
        self._step_in_block += not opening
        end = self.canvas.grid.block_end(self.start)
        if not self.canvas.masked[self.start : end].any():
            self.start, self._step_in_block = end, 0
            self.blocks_begun += self.start < self.canvas.length
        return newly

    def _chunk(self, room: int) -> Window:
        """As many whole blocks of the prefill as ``room`` allows."""
        length = self.params.block_length
        self._chunk_end = min((self.cached + room) // length * length, self.start)
        visible = self.canvas.grid.visible(self.cached, self._chunk_end)
        return Window(self.cached, self._chunk_end, self._chunk_end, visible, [], left=self._chunk_end - 1)

"""One request inside the engine: its canvas, its denoiser, its pages, and what it has told its client so far."""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.block_causal import BlockCausalDenoiser
from unmask.decoding.canvas import Canvas
from unmask.decoding.full_attention import FullAttentionDenoiser
from unmask.decoding.windows import Denoiser, Window
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.errors import EngineFaultError
from unmask.events import CanvasEvent, RequestStats
from unmask.params import DecodingParams, ModelInfo


class Sequence:
    """The live state of one request. Times are seconds on the loop's clock, passed in."""

    def __init__(
        self, request_id: str, prompt_ids: list[int], params: DecodingParams, model: ModelInfo, now: float
    ) -> None:
        self.request_id = request_id
        self.params = params
        end_ids = () if params.ignore_eos else model.end_ids
        self.canvas = Canvas(prompt_ids, params, model.context_length, model.mask_id, end_ids)
        denoiser = FullAttentionDenoiser if model.attention == "full" else BlockCausalDenoiser
        self.denoiser: Denoiser = denoiser(self.canvas, params)
        self.pages: list[int] = []
        self._slots: list[NDArray[np.int64]] = []
        self.stats = RequestStats()
        self._told = len(prompt_ids)
        self._arrived = now
        # Each forward commits at least one token: a request that needs more than it has positions is broken.
        self._most_forwards = self.canvas.length - len(prompt_ids)

    @property
    def streams(self) -> int:
        """How often each position goes through a forward: twice under classifier-free guidance."""
        return 2 if self.params.cfg_scale else 1

    @property
    def pages_needed(self) -> int:
        """Pages for prompt and whole canvas, in each stream."""
        return pages_for(self.canvas.length) * self.streams

    def admit(self, pages: list[int], now: float) -> None:
        """Take over ``pages``: the slots of all positions, in order."""
        self.pages = pages
        firsts = np.array(pages, dtype=np.int64).reshape(self.streams, -1, 1) * PAGE_TOKENS
        self._slots = list((firsts + np.arange(PAGE_TOKENS)).reshape(self.streams, -1)[:, : self.canvas.length])
        self.stats.queued = now - self._arrived

    def tokens(self, unconditional: bool) -> NDArray[np.int64]:
        """Tokens of all positions [length]; the ``unconditional`` stream has its prompt masked."""
        if not unconditional:
            return self.canvas.tokens
        tokens: NDArray[np.int64] = self.canvas.tokens.copy()
        tokens[: self.canvas.prompt_length] = self.canvas.mask_id
        return tokens

    def slots(self, unconditional: bool) -> NDArray[np.int64]:
        """Cache slots of all positions [length]."""
        return self._slots[unconditional]

    def apply(self, window: Window, positions: list[int], tokens: list[int], now: float) -> None:
        """Take the commits of one forward over ``window``. Raises ``EngineFaultError`` if it did not get us further."""
        self.denoiser.apply(positions, tokens)
        stats = self.stats
        stats.forwards += 1
        stats.committed += len(positions)
        stats.blocks = self.denoiser.blocks_begun
        stats.canvas_tokens += (window.end - window.start) * self.streams
        stats.total = now - self._arrived
        if stats.first_block is None and (self.canvas.first_block_decided or self.canvas.finish):
            stats.first_block = stats.total
        if not self.canvas.finish and stats.forwards >= self._most_forwards:
            raise EngineFaultError(f"{stats.forwards} forwards did not decide {self._most_forwards} positions.")

    def event(self) -> CanvasEvent | None:
        """What is new since the last event; None if nothing is."""
        canvas = self.canvas
        finish = canvas.finish
        if canvas.text_end == self._told and finish is None and not self.params.frames:
            return None
        new = canvas.tokens[self._told : canvas.text_end].tolist()
        self._told = canvas.text_end
        frame = canvas.tokens[canvas.prompt_length :].tolist() if self.params.frames else None
        return CanvasEvent(self.request_id, new, copy(self.stats), finish, finish == "stop", frame)

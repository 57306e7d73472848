"""One request inside the engine: its canvas, its denoiser, its pages, and what it has told its client so far."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.block_causal import BlockCausalDenoiser
from unmask.decoding.canvas import Canvas
from unmask.decoding.full_attention import FullAttentionDenoiser
from unmask.decoding.renoise import RenoiseDenoiser
from unmask.decoding.sub_block import SubBlockDenoiser
from unmask.decoding.windows import Decision, Denoiser, Outlook, Window
from unmask.engine.pages import PAGE_TOKENS, pages_for
from unmask.errors import EngineFaultError
from unmask.events import CanvasEvent, RequestStats
from unmask.params import DecodingParams, DenoiserKind, ModelInfo

_DENOISERS: dict[DenoiserKind, Callable[[Canvas, DecodingParams, ModelInfo], Denoiser]] = {
    "full": FullAttentionDenoiser,
    "block_causal": BlockCausalDenoiser,
    "sub_block": SubBlockDenoiser,
    "renoise": RenoiseDenoiser,
}


class Sequence:
    """The live state of one request. Times are seconds on the loop's clock, passed in.

    ``adapter``: the number of the adapter that its rows go through, if any. ``step`` counts the decisions applied.
    ``outlook``: what the last forward proposed, if the request looks ahead. ``parent``: what a draft is a fork of.
    """

    def __init__(
        self,
        request_id: str,
        prompt_ids: list[int],
        params: DecodingParams,
        model: ModelInfo,
        now: float,
        adapter: int | None = None,
    ) -> None:
        self.request_id = request_id
        self.params = params
        self.adapter = adapter
        end_ids = () if params.ignore_eos else model.end_ids
        self.canvas = Canvas(prompt_ids, params, model, end_ids)
        self.denoiser = _DENOISERS[model.denoiser](self.canvas, params, model)
        self.pages: list[int] = []
        self._slots: list[NDArray[np.int64]] = []
        self.stats = RequestStats()
        self.step = 0
        self.outlook: Outlook | None = None
        self.parent: Sequence | None = None
        self._window: Window | None = None
        self._told = len(prompt_ids)
        self._arrived = now

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
        assert self.canvas.mask_id is not None, "guidance is refused for models without a mask"
        tokens[: self.canvas.prompt_length] = self.canvas.mask_id
        return tokens

    def slots(self, unconditional: bool) -> NDArray[np.int64]:
        """Cache slots of all positions [length]."""
        return self._slots[unconditional]

    def next_window(self) -> Window:
        """The coming forward; the same one until a decision is applied."""
        if self._window is None:
            self._window = self.denoiser.next_window()
        return self._window

    def fork(self, decision: Decision) -> Sequence:
        """This request as it would be if its coming forward decided ``decision``; it needs slots of its own."""
        fork = copy(self)
        fork.canvas, fork.denoiser = deepcopy((self.canvas, self.denoiser), {id(self.params): self.params})
        fork.denoiser.apply(decision)
        fork.step, fork.parent, fork._window = self.step + 1, self, None
        return fork

    def borrow(self, pages: list[int]) -> None:
        """Take over ``pages`` for the rows of the coming window, in each stream; all other slots stay the parent's."""
        self.pages = pages
        rows = slice(self.next_window().start, self.next_window().end)
        firsts = np.array(pages, dtype=np.int64).reshape(self.streams, -1, 1) * PAGE_TOKENS
        borrowed = (firsts + np.arange(PAGE_TOKENS)).reshape(self.streams, -1)[:, : rows.stop - rows.start]
        self._slots = [slots.copy() for slots in self._slots]
        for slots, own in zip(self._slots, borrowed, strict=True):
            slots[rows] = own

    def apply(self, window: Window, decision: Decision, now: float, foreseen: bool = False) -> int:
        """Take the decision on ``window``; the number of positions newly decided. A ``foreseen`` one came from a draft
        and cost no forward of its own.

        Raises ``EngineFaultError`` for a request that takes more steps than any can need.
        """
        newly = self.denoiser.apply(decision)
        self.step, self.outlook, self._window = self.step + 1, decision.outlook, None
        stats = self.stats
        if not foreseen:
            stats.forwards += 1
            stats.canvas_tokens += (window.end - window.start) * self.streams
        stats.committed += newly
        stats.blocks = self.denoiser.blocks_begun
        stats.total = now - self._arrived
        if stats.first_block is None and (self.canvas.first_block_decided or self.canvas.finish):
            stats.first_block = stats.total
        if not self.canvas.finish and self.step >= self.denoiser.most_forwards:
            raise EngineFaultError(f"{self.step} forwards did not decide {self.canvas.length} positions.")
        return newly

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

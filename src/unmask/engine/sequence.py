"""One request inside the engine: its canvas, its denoiser, and what it has told its client so far."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unmask.constraints.automaton import Automaton
from unmask.decoding.block_causal import BlockCausalDenoiser
from unmask.decoding.canvas import Canvas
from unmask.decoding.full_attention import FullAttentionDenoiser
from unmask.decoding.kept import kept_bytes
from unmask.decoding.renoise import RenoiseDenoiser
from unmask.decoding.sub_block import SubBlockDenoiser
from unmask.decoding.teaching import leftmost_only
from unmask.decoding.windows import Decision, Denoiser, Outlook, Window
from unmask.engine.held_pages import HeldPages
from unmask.engine.sketch import Sketchbook
from unmask.errors import EngineFaultError
from unmask.events import CanvasEvent, FinishReason, RequestStats, TokenLogprob
from unmask.params import DecodingParams, DenoiserKind, ModelInfo
from unmask.terms import PLAIN, Terms

if TYPE_CHECKING:  # it holds tensors, of which nothing is known here
    from unmask.decoding.recollection import RuleMemory

_DENOISERS: dict[DenoiserKind, Callable[[Canvas, DecodingParams, ModelInfo], Denoiser]] = {
    "full": FullAttentionDenoiser,
    "block_causal": BlockCausalDenoiser,
    "sub_block": SubBlockDenoiser,
    "renoise": RenoiseDenoiser,
}


class Sequence:
    """The live state of one request. Times are seconds on the loop's clock, passed in.

    ``adapter``: the number of the adapter that its rows go through, if any. ``terms``: how urgent it is, and for whom.
    ``automaton``: what its text must fit. ``rule_memory``: what its rule remembers, if it does, from its first forward
    on; ``kept_bytes`` is the most that this takes. ``shares``: whether others may use the keys and values of its final
    tokens, and it theirs. ``held``: its pages. ``step``: the number of its coming denoising step. ``outlook``: what the
    last forward proposed, if the request looks ahead. ``parent``: what a draft is a fork of. ``sketchbook``: there
    if the request asked for frames.
    """

    def __init__(
        self,
        request_id: str,
        prompt_ids: list[int],
        params: DecodingParams,
        model: ModelInfo,
        now: float,
        adapter: int | None = None,
        *,
        terms: Terms = PLAIN,
        shares: bool = True,
    ) -> None:
        self.request_id = request_id
        self.terms = terms
        self.arrived = now
        self.params = params
        self.adapter = adapter
        self.shares = shares
        constraint = params.constraint
        self.automaton = None if constraint is None else Automaton.from_bytes(constraint.automaton)
        end_ids = () if params.ignore_eos else model.end_ids
        self.canvas = Canvas(prompt_ids, params, model, end_ids)
        self.denoiser = _DENOISERS[model.denoiser](self.canvas, params, model)
        self.kept_bytes = kept_bytes(params.rule, params.block_length, model.vocab_size)
        self.rule_memory: RuleMemory | None = None
        self.held = HeldPages([])
        self.step = 0
        self.stats = RequestStats()
        self.outlook: Outlook | None = None
        self.parent: Sequence | None = None
        self._window: Window | None = None
        self._answer: NDArray[np.int64] = np.array(params.answer, dtype=np.int64)
        self._shifted = model.shifted
        self.sketchbook = Sketchbook(self.canvas, params) if params.frames else None
        self._logprobs: dict[int, TokenLogprob] = {}
        self._told = len(prompt_ids)

    @property
    def streams(self) -> int:
        """How often each position goes through a forward: twice under classifier-free guidance."""
        return 2 if self.params.cfg_scale else 1

    @property
    def wants_outlook(self) -> bool:
        """Whether it matters what its forwards propose besides what they decide."""
        return self.params.lookahead > 0 or self.sketchbook is not None

    @property
    def most_rows(self) -> int:
        """The most rows of any coming step, in all streams, besides those of a prefill."""
        return self.denoiser.most_rows * self.streams

    @property
    def first_rows(self) -> int:
        """The rows that there must be room for in its first step."""
        prefill = 0 if self.denoiser.divisible else self.denoiser.prefill_rows
        return self.most_rows + prefill * self.streams

    @property
    def most_reusable(self) -> int:
        """How many of its first positions need not be computed if others have computed the same.

        With shifted logits the last final position is computed in any case: its row predicts what follows.
        """
        return max(self.denoiser.final - self._shifted, 0)

    def admit(self, held: HeldPages, cached: int, now: float) -> None:
        """Run with the pages ``held``, which hold what the first ``cached`` positions need."""
        self.held = held
        self.denoiser.restart(cached)
        self._window = None
        if not self.stats.forwards:
            self.stats.queued = now - self.arrived
            self.stats.cached = min(cached, self.canvas.prompt_length)

    def relax(self, params: DecodingParams) -> None:
        """Decode under ``params`` from the first forward on; what they change is told in the stats."""
        self.stats.relaxed = {"threshold": params.threshold} if params.threshold != self.params.threshold else {}
        self.params = params

    def tokens(self, unconditional: bool) -> NDArray[np.int64]:
        """Tokens of all positions [length]; the ``unconditional`` stream has its prompt masked."""
        if not unconditional:
            return self.canvas.tokens
        tokens: NDArray[np.int64] = self.canvas.tokens.copy()
        assert self.canvas.mask_id is not None, "guidance is refused for models without a mask"
        tokens[: self.canvas.prompt_length] = self.canvas.mask_id
        return tokens

    def next_window(self, room: int | None = None) -> Window:
        """The coming forward, its prefill cut to ``room``; the same one until a decision is applied."""
        if self._window is None:
            denoiser = self.denoiser
            self._window = denoiser.next_window(denoiser.most_rows + denoiser.prefill_rows if room is None else room)
            if self.params.answer:
                leftmost_only(self._window, self.canvas)
        return self._window

    def known_tokens(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """What stands at ``positions`` of an answer that is known already."""
        return self._answer[positions - self.canvas.prompt_length]

    @property
    def known_decision(self) -> Decision | None:
        """What the coming forward decides if the answer is known already; None if it is not."""
        if not self.params.answer:
            return None
        position = np.array([self.canvas.decided])
        return Decision(position, self.known_tokens(position))

    def fork(self, decision: Decision) -> Sequence:
        """This request as it would be if its coming forward decided ``decision``; it needs pages of its own."""
        fork = copy(self)
        fork.canvas, fork.denoiser = deepcopy((self.canvas, self.denoiser), {id(self.params): self.params})
        fork.denoiser.apply(decision)
        fork.step, fork.parent, fork._window = self.step + 1, self, None
        return fork

    def apply(self, window: Window, decision: Decision, now: float, foreseen: bool = False) -> int:
        """Take the decision on ``window``; the number of positions newly decided. A ``foreseen`` one came from a draft
        and cost no forward of its own.

        Raises ``EngineFaultError`` for a request that takes more steps than any can need.
        """
        newly = self.denoiser.apply(decision)
        self._window = None
        if window.segments:  # a piece of a prefill proposes nothing
            self.step += 1
            self.outlook = decision.outlook
        self._logprobs |= decision.logprobs or {}  # an edited position's anew: its token's before are no longer true
        stats = self.stats
        if not foreseen:
            stats.forwards += 1
            stats.canvas_tokens += window.count * self.streams
        stats.committed += newly
        stats.blocks = self.denoiser.blocks_begun
        stats.total = now - self.arrived
        if self.sketchbook is not None:
            self.sketchbook.note(decision, stats.forwards)
        if stats.first_block is None and (self.canvas.first_block_decided or self.canvas.finish):
            stats.first_block = stats.total
        if not self.canvas.finish and self.step >= self.denoiser.most_forwards:
            raise EngineFaultError(f"{self.step} steps did not decide {self.canvas.length} positions.")
        return newly

    def event(self, cut: FinishReason | None = None) -> CanvasEvent | None:
        """What is new since the last event; None if nothing is. ``cut``: why the request ends before its time."""
        canvas = self.canvas
        finish: FinishReason | None = cut or canvas.finish
        frame = None if self.sketchbook is None else self.sketchbook.frame(self.stats, last=finish is not None)
        if canvas.text_end == self._told and finish is None and frame is None:
            return None
        positions = range(self._told, canvas.text_end)
        new = canvas.tokens[self._told : canvas.text_end].tolist()
        logprobs = None if self.params.logprobs is None else [self._logprobs.pop(position) for position in positions]
        self._told = canvas.text_end
        ended_by_token = finish == "stop"
        closing = self._logprobs.get(canvas.end) if ended_by_token and canvas.end is not None else None
        if finish == "length" and self.automaton is not None:
            finish = "stop"  # its text is whole, also where it takes all of the canvas
        return CanvasEvent(
            self.request_id,
            new,
            copy(self.stats),
            finish,
            ended_by_token,
            frame,
            logprobs=logprobs,
            closing=closing,
        )

"""What the engine says while it works: events about canvases, never strings.

One ``StepReport`` crosses the process border after each denoising step. Committed tokens never change, so a
``CanvasEvent`` carries only the growth of the decided prefix; dialects turn it into bytes.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

FinishReason = Literal["stop", "length", "timeout"]
WireFinish = Literal["stop", "length", "tool_calls"]
NO_TOKEN = -1  # in frames of models without a mask token: nothing stands here yet


class RequestStats(msgspec.Struct, array_like=True):
    """What a request has cost so far.

    ``canvas_tokens``: positions sent through the model, prompt and shadows included, in each stream of a request.
    ``committed``: tokens committed, those beyond the end of the text included. ``blocks``: blocks begun.
    ``cached``: prompt positions whose keys and values were known. ``evictions``: how often others needed its pages.
    ``drafts``: coming steps that were guessed and computed ahead, ``drafts_accepted`` those that were guessed right.
    Times are seconds since the engine received the request; ``first_block`` is None until that block is complete.
    ``relaxed``: parameters that a service class changed when the request was admitted. ``estimates``: the forwards
    that the request was expected to take in all, on arrival and after its first block; None where it was too early
    to tell (``engine/estimate.py``).
    """

    forwards: int = 0
    blocks: int = 0
    canvas_tokens: int = 0
    committed: int = 0
    queued: float = 0.0
    first_block: float | None = None
    total: float = 0.0
    cached: int = 0
    evictions: int = 0
    relaxed: dict[str, Any] = {}
    estimates: tuple[float | None, float | None] = (None, None)
    drafts: int = 0
    drafts_accepted: int = 0


class TokenLogprob(msgspec.Struct, array_like=True, frozen=True):
    """What the model thought of ``token_id`` in the forward that committed it: natural logarithms of probabilities.

    ``alternatives``: the likeliest tokens there and theirs, best first; ``token_id`` itself need not be among them.
    ``offset``: where the token's text begins in the answer's; known to those who know the text. ``logprob`` is NaN for
    a token that was given and not judged.
    """

    token_id: int
    logprob: float
    alternatives: list[tuple[int, float]]
    offset: int = 0

    def moved(self, offset: int) -> TokenLogprob:
        """The same, with its text beginning at ``offset``."""
        return msgspec.structs.replace(self, offset=offset)

    @property
    def judged(self) -> bool:
        """Whether there is a number."""
        return not math.isnan(self.logprob)


class Frame(msgspec.Struct, array_like=True):
    """A whole canvas as it stands after a step. Cells are counted from the prompt's end.

    ``tokens``: one for each cell, the mask where nothing is decided. ``tail``: cells at its end that are masked and in
    blocks that are not begun; nothing is told of them. ``committed``: leading cells that can no longer change. ``end``:
    the first cell that is no part of the answer, as far as is known. ``block_length`` in cells; the ``first_block`` may
    have fewer, having begun in the prompt. Of each cell but the tail's: the forward in which it was ``decided`` (0 as
    long as it is masked), the ``confidence`` of what was last proposed there (0 to 1; -1 where that is not known), and
    as long as it is masked the likeliest token so far (``guesses``, else ``NO_TOKEN``). ``edited``: cells whose token
    has been replaced or taken back.
    """

    tokens: list[int]
    tail: int = 0
    committed: int = 0
    end: int | None = None
    block_length: int = 0
    first_block: int = 0
    decided: list[int] = []
    confidence: list[float] = []
    guesses: list[int] = []
    edited: list[int] = []


class CanvasEvent(msgspec.Struct, array_like=True):
    """News of one request after one step.

    ``token_ids``: the decided prefix grew by these; they are final, end tokens excluded.
    ``finish``: set on the last event; ``ended_by_token`` says that an end token closed the text (it is counted
    in usage, never shown). ``frame``: the canvas, if the request asked for frames and one is due. ``error``: (code,
    message) on the last event of a request that did not finish. ``logprobs``: one for each of ``token_ids``, if the
    request asked for them; ``closing``: that of the end token that closed the text.
    """

    request_id: str
    token_ids: list[int]
    stats: RequestStats
    finish: FinishReason | None = None
    ended_by_token: bool = False
    frame: Frame | None = None
    error: tuple[str, str] | None = None
    logprobs: list[TokenLogprob] | None = None
    closing: TokenLogprob | None = None

    @property
    def last(self) -> bool:
        """Whether nothing more will come of this request."""
        return self.finish is not None or self.error is not None

    @classmethod
    def failure(cls, request_id: str, code: str, message: str) -> CanvasEvent:
        """The last event of a request that ended in an error."""
        return cls(request_id, [], RequestStats(), error=(code, message))


def wire_finish(finish: FinishReason) -> WireFinish:
    """``finish`` in words that clients of other servers know: an answer cut by time is cut short like any other."""
    return "length" if finish == "timeout" else finish


class EngineStats(msgspec.Struct, array_like=True):
    """The engine's gauges after a step, and its counters since it started."""

    running: int = 0
    waiting: int = 0
    pages_in_use: int = 0
    pages_total: int = 0
    steps: int = 0
    rows: int = 0
    tokens_committed: int = 0
    pages_idle: int = 0
    evictions: int = 0
    prompt_tokens: int = 0
    prompt_tokens_cached: int = 0


class StepReport(msgspec.Struct, array_like=True, tag="step"):
    """Everything one engine step has to tell its clients; ``seconds`` is the step's wall time."""

    events: list[CanvasEvent]
    stats: EngineStats
    seconds: float

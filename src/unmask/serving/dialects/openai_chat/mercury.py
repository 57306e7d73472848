"""A streamed chat answer as Inception's Mercury streams it: each chunk tells the whole text as it stands.

For requests that say ``diffusing: true``. What is not decided yet is told as the model's likeliest guess: a client
replaces what it shows with each chunk. A call's arguments are appended, as in every other stream. The wire shape is
that of fixtures recorded from the service, which calls such text noisy.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.parts import AnswerBuilder, Content, ToolPiece
from unmask.events import Frame, WireFinish
from unmask.serving import sse
from unmask.serving.dialects.openai_chat.encode import call_id
from unmask.serving.dialects.openai_common.envelope import envelope
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.errors import Problem
from unmask.serving.extension import GenerationReport

_MASKED = "\u2591"  # a cell that nothing is known of


class NoisyFunction(msgspec.Struct, frozen=True):
    """What a call adds to its arguments; the name comes once."""

    arguments: str
    name: str | None


class NoisyCall(msgspec.Struct, frozen=True):
    """A call's part of a chunk; all but ``index`` and arguments come once."""

    index: int
    id: str | None
    type: Literal["function"]
    function: NoisyFunction


class NoisyDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """``content`` is the whole text, not an addition to it."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    tool_calls: list[NoisyCall] | UnsetType = UNSET


class NoisyChoice(msgspec.Struct, frozen=True):
    """The one answer."""

    delta: NoisyDelta
    finish_reason: WireFinish | None = None
    index: int = 0


class DiffusionMeta(msgspec.Struct, frozen=True):
    """``diffusion_progress``: the share of the cells so far that are decided; 1 on the last snapshot only."""

    diffusion_progress: float
    diffusion_content: bool = True


class NoisyChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[NoisyChoice]
    usage: Usage | UnsetType | None = UNSET
    diffusion_meta: DiffusionMeta | UnsetType = UNSET
    reasoning_summary: str | None = None
    unmask: GenerationReport | UnsetType = UNSET


class MercuryStream:
    """Snapshots of one answer, its calls, its end twice (with the last snapshot and by itself), usage, ``[DONE]``."""

    media_type: ClassVar[str] = sse.EVENT_STREAM
    keep_alive: ClassVar[bytes | None] = sse.COMMENT

    def __init__(self, head: Head, cells: Cells, *, include_usage: bool) -> None:
        self._head = head
        self._cells = cells
        self._include_usage = include_usage
        self._whole = AnswerBuilder()
        self._in_content = True  # whether what comes next is text for the reader, as far as is known
        self._answers: list[Answer] = []

    def start(self) -> list[bytes]:
        """Nothing: every chunk tells the role."""
        return []

    def step(self, number: int, delta: AnswerDelta) -> list[bytes]:
        """The calls of ``delta``, then the text as it stands if there is news of it."""
        events = [self._call(part) for part in delta.parts if isinstance(part, ToolPiece)]
        for part in delta.parts:
            self._whole.add(part)
            self._in_content = isinstance(part, Content)
        if delta.answer is not None:
            return [*events, *self._last(delta.answer)]
        if delta.frame is not None:
            events.append(self._snapshot(self._whole.content + self._noise(delta.frame), _progress(delta.frame)))
        elif any(isinstance(part, Content) for part in delta.parts):
            events.append(self._snapshot(self._whole.content, 0.0))
        return events

    def end(self) -> list[bytes]:
        """The usage, if it was asked for."""
        usage = [self._chunk(usage=Usage.of(self._answers))] if self._include_usage else []
        return [*usage, sse.DONE]

    def fail(self, problem: Problem) -> bytes:
        """The error event."""
        return self.refuse(problem)

    @staticmethod
    def refuse(problem: Problem) -> bytes:
        """The same event, of a request that was not begun."""
        return sse.data(envelope(problem))

    def _last(self, answer: Answer) -> list[bytes]:
        self._answers.append(answer)
        report = GenerationReport.of(answer.completion)
        return [
            self._snapshot(answer.content, 1.0, answer.finish),
            self._chunk(NoisyChoice(NoisyDelta(), answer.finish), unmask=report),
        ]

    def _snapshot(self, text: str, progress: float, finish: WireFinish | None = None) -> bytes:
        choice = NoisyChoice(NoisyDelta("assistant", text, []), finish)
        return self._chunk(choice, meta=DiffusionMeta(progress))

    def _call(self, piece: ToolPiece) -> bytes:
        own_id = None if piece.name is None else call_id(self._head, 0, piece.index)
        call = NoisyCall(piece.index, own_id, "function", NoisyFunction(piece.arguments, piece.name))
        delta = NoisyDelta("assistant", self._whole.content, [call])
        return self._chunk(NoisyChoice(delta), meta=DiffusionMeta(0.0))

    def _noise(self, frame: Frame) -> str:
        """What follows the text that can no longer change, as far as the model has come."""
        if not self._in_content:
            return ""
        told = len(frame.tokens) - frame.tail
        cells = range(frame.committed, told if frame.end is None else min(told, frame.end))
        texts, guesses = self._cells.prose(frame.tokens[:told]), self._cells.prose(frame.guesses)
        return "".join(_first(texts[cell], guesses[cell]) for cell in cells)

    def _chunk(
        self,
        *choices: NoisyChoice,
        usage: Usage | None = None,
        meta: DiffusionMeta | UnsetType = UNSET,
        unmask: GenerationReport | UnsetType = UNSET,
    ) -> bytes:
        chunk = NoisyChunk(
            id=self._head.id,
            created=self._head.created,
            model=self._head.model,
            choices=list(choices),
            usage=usage if self._include_usage else UNSET,
            diffusion_meta=meta,
            unmask=unmask,
        )
        return sse.data(chunk)


def _first(decided: str | None, guess: str | None) -> str:
    known = guess if decided is None else decided
    return _MASKED if known is None else known


def _progress(frame: Frame) -> float:
    """The share of the cells told of that are decided: always less than 1 before the end."""
    decided = sum(forward > 0 for forward in frame.decided)
    return round(min(decided / max(len(frame.decided), 1), 0.99), 3)

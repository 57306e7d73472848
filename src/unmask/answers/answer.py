"""From text deltas to the parts of one answer, and to the whole of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unmask.answers.parts import AnswerBuilder, Content, Part, ToolCall, ToolPiece, merged
from unmask.answers.reading import Reading
from unmask.engine.completion import Completion
from unmask.engine.text import TextDelta
from unmask.events import FinishReason, Frame, RequestStats, TokenLogprob, WireFinish, wire_finish


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneCompletion:
    """How an answer of another engine than ours ended, and what it used; it has names in common with ``Completion``.

    ``lane``: the engine's name. ``applied``: the parameters that it was given. ``stats`` has only times, and the prompt
    tokens it had ``cached``. ``estimated``: it did not tell all of the token counts, and they are estimates.
    """

    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    stats: RequestStats
    lane: str
    applied: dict[str, Any]
    stopped_by: str | None = None
    estimated: bool = False
    warnings: tuple[str, ...] = ()
    replayed: bool = False
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished answer. ``logprobs`` are those of the content's tokens; ``reasoning_tokens`` counts those before.

    ``parts``: all of it in its order, each part as long as it goes on. ``cut``: it fits its form, but no end token said
    that it was over. ``broken_off``: its last call lacks the end of its arguments.
    """

    content: str
    reasoning: str
    tool_calls: list[ToolCall]
    reasoning_tokens: int
    logprobs: list[TokenLogprob] | None
    completion: Completion | LaneCompletion
    parts: list[Part]
    cut: bool = False
    broken_off: bool = False

    @property
    def finish(self) -> WireFinish:
        """Why it ended, in words that clients know: after a call that is whole, for its result."""
        finish = "length" if self.cut else wire_finish(self.completion.finish_reason)
        return "tool_calls" if self.tool_calls and not self.broken_off and finish == "stop" else finish


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """What an event adds to an answer: ``parts``, none of them empty. ``answer`` is set on the last delta only.

    ``stats`` and ``frame`` are the event's; ``logprobs``, if the request asked for them, are those of the content
    tokens whose text this delta completes. ``runs``, one for each of them, tells content apart that other parts come
    between: the number of runs of content that were over before the token.
    """

    parts: list[Part]
    stats: RequestStats
    frame: Frame | None
    logprobs: list[TokenLogprob] | None
    answer: Answer | None
    runs: list[int] = field(default_factory=list)


class AnswerAssembler:
    """Reads one answer. The parts, put together, do not depend on how text is split into deltas."""

    def __init__(self, reading: Reading) -> None:
        self._parser = reading.parser()
        self._one_call = reading.one_call
        self._open_ended = reading.open_ended
        self._over = False
        self._whole = AnswerBuilder()
        self._parts: list[Part] = []
        self._reasoning_tokens = 0
        self._places: list[int | None] = []  # of each token: the run of content that it belongs to, if any
        self._run = 0
        self._in_run = False
        self._told = 0
        self._logprobs: list[TokenLogprob] = []

    def feed(self, delta: TextDelta) -> AnswerDelta:
        """The parts that ``delta`` brings. None may follow the one with a completion."""
        parts: list[Part] = []
        for number, piece in enumerate(delta.pieces):
            parts += self._read(piece)
            if number < len(delta.token_ids):
                self._place()
        completion = delta.completion
        if completion is not None and self._parser is not None:
            parts += self._parser.finish()
        parts = merged(part for part in parts if self._wanted(part))
        self._parts += parts
        for part in parts:
            self._whole.add(part)
        logprobs, runs = self._content_logprobs(delta.logprobs)
        answer = None if completion is None else self._answer(completion)
        return AnswerDelta(parts, delta.stats, delta.frame, logprobs, answer, runs)

    def _read(self, piece: str) -> list[Part]:
        if self._parser is None:
            return [Content(piece)] if piece else []
        parts = self._parser.feed(piece)
        for part in parts:
            content = isinstance(part, Content)
            self._run += self._in_run and not content
            self._in_run = content
        return parts

    def _wanted(self, part: Part) -> bool:
        """Where one call is wanted, a second one and all that follows it are dropped."""
        self._over |= self._one_call and isinstance(part, ToolPiece) and part.index > 0
        return not self._over

    def _place(self) -> None:
        place = "content" if self._parser is None else self._parser.place
        self._places.append(self._run if place == "content" else None)
        self._reasoning_tokens += place == "reasoning"

    def _content_logprobs(self, entries: list[TokenLogprob] | None) -> tuple[list[TokenLogprob] | None, list[int]]:
        """Entries come in the order of tokens, some later than these."""
        if entries is None:
            return None, []
        places = self._places[self._told : self._told + len(entries)]
        self._told += len(entries)
        own = [(entry, run) for entry, run in zip(entries, places, strict=True) if run is not None]
        found = [entry for entry, _ in own]
        self._logprobs += found
        return found, [run for _, run in own]

    def _answer(self, completion: Completion) -> Answer:
        whole = self._whole
        return Answer(
            content=whole.content,
            reasoning=whole.reasoning,
            tool_calls=whole.tool_calls,
            reasoning_tokens=self._reasoning_tokens,
            logprobs=None if completion.logprobs is None else self._logprobs,
            completion=completion,
            parts=merged(self._parts),
            cut=self._open_ended and completion.completion_tokens == len(completion.token_ids),
            broken_off=self._parser is not None and self._parser.broken_off and not self._over,
        )

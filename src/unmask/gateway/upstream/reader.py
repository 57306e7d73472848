"""From a lane's chunks to the parts of one answer, and to the whole of it. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

from unmask.answers.answer import Answer, LaneCompletion
from unmask.answers.parts import AnswerBuilder, Content, Part, Reasoning, ToolPiece, merged
from unmask.errors import UpstreamError
from unmask.events import FinishReason, Frame, RequestStats, TokenLogprob
from unmask.gateway.upstream.calls import CallError, CallReader, is_object
from unmask.gateway.upstream.chunk import Choice, Chunk, Delta
from unmask.gateway.upstream.counts import Counts
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.gateway.upstream.finishes import finish_of
from unmask.gateway.upstream.logprobs import ContentLogprobs
from unmask.gateway.upstream.request import Asked
from unmask.gateway.upstream.rows import CallRows
from unmask.gateway.upstream.spellings import MASK, Spellings
from unmask.gateway.upstream.stops import StopScanner

MAX_ANSWER = 32 * 1024 * 1024  # characters: no model's context holds as many


@dataclass(frozen=True, slots=True)
class News:
    """What a chunk adds to an answer, as ``AnswerDelta`` has it. ``progress``: whether the lane got anywhere."""

    parts: list[Part]
    frame: Frame | None
    logprobs: list[TokenLogprob] | None
    runs: list[int]
    progress: bool = True

    def __bool__(self) -> bool:
        return bool(self.parts or self.frame or self.logprobs)


class AnswerReader:
    """Reads one answer of ``endpoint``. The parts, put together, do not depend on how it cut its text into chunks.

    A snapshot (Mercury's ``diffusing``) replaces all content before it, so none of it is certain but the last. Until
    then it can be told as a frame: a canvas of one cell that is not decided, whose likeliest guess is the whole text.

    ``begun``: whether anything has come of an answer, shown or not.
    """

    def __init__(self, asked: Asked, endpoint: Endpoint, spellings: Spellings) -> None:
        self._asked = asked
        self._endpoint = endpoint
        self._spellings = spellings
        self._parser = asked.reading.parser()
        self._content = StopScanner(asked.stop)
        self._thought = StopScanner(asked.stop)  # a stop string ends all text, as with our own engine
        self._numbers = count()
        self._calls = CallReader(self._numbers)
        self._parsed: dict[int, int] = {}  # the numbers of the calls that the parser found, by its own
        self._rows = CallRows()
        self._counts = Counts(asked.prompt_bytes)
        self._logprobs = None if asked.logprobs is None else ContentLogprobs(asked.logprobs, spellings)
        self._whole = AnswerBuilder()
        self._parts: list[Part] = []
        self._size = 0
        self._snapshot: str | None = None
        self._dropping = False  # all that follows the one call that is wanted
        self._finish: FinishReason | None = None
        self._told_stop: str | None = None
        self._thinking = False
        self.begun = False

    @property
    def finished(self) -> bool:
        """Whether the lane has said that the answer is over; its usage may be still to come."""
        return self._finish is not None

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, estimated if the lane has not told; 0 as long as it has not answered at all."""
        return self._counts.prompt if self.begun else self._counts.told_prompt or 0

    @property
    def committed(self) -> int:
        """Tokens of the answer so far; 0 as long as none of its text is certain."""
        return self._counts.completion if self._parts else 0

    @property
    def stopped(self) -> bool:
        """Whether a stop string has ended the text: the lane may be left."""
        return bool(self._content.met or self._thought.met)

    def feed(self, chunk: Chunk) -> News:
        """What ``chunk`` brings. Raises ``UpstreamError`` for what is no answer, or none that can be told."""
        choice = chunk.choices[0] if chunk.choices else None
        delta = Delta() if choice is None else choice.added
        if choice is None or self.stopped:
            self._counts.read(chunk)
            return News([], None, None, [], progress=False)
        with self._making_sense():
            found = self._rows.put(self._read_snapshot(delta) if chunk.snapshot else self._read(delta, choice))
        self.begun = self.begun or bool(delta.text or delta.thought or delta.tool_calls)
        frame, progress = None, bool(delta.text or delta.thought or delta.tool_calls or choice.finish_reason)
        if chunk.snapshot:
            progress = bool(delta.tool_calls or choice.finish_reason) or delta.text != self._snapshot
            frame = self._frame(delta.text) if progress else None
            self._snapshot = delta.text
            self._counts.read(chunk, replaces=delta.text)
        else:
            reasoning = bool(delta.thought) or (self._parser is not None and self._parser.place == "reasoning")
            self._counts.read(chunk, delta.text + delta.thought + _arguments(delta), reasoning=reasoning)
        if choice.finish_reason is not None:
            self._finish = self._finish or finish_of(choice.finish_reason, self._endpoint)
            self._told_stop = self._told_stop or choice.stopped_by
        return self._news(found, frame, progress)

    def end(self, cut: FinishReason | None = None) -> tuple[News, Answer]:
        """What was held back, and the whole answer: it is over, or was ``cut``. Raises ``UpstreamError`` if nothing
        has come of it.
        """
        if cut is None and not (self.begun or self.finished):
            raise UpstreamError(
                f"{self._endpoint.told} answered with nothing.",
                hint=f"{self._endpoint.look} Is it a server of OpenAI's API?",
            )
        rest = self._rest(snapshot=cut is None)
        finish = "stop" if self.stopped else cut or self._finish or "stop"
        with self._making_sense():
            if cut is None:
                self._calls.end()
            found = self._rows.put(rest) + self._rows.end(whole=finish == "stop")
        news = self._news(found, None, True, last=True)
        return news, self._answer(finish)

    def _rest(self, *, snapshot: bool) -> list[Part]:
        """What was held back, and the last ``snapshot``, if there is one and it is certain."""
        found = self._text(self._snapshot) if self._snapshot and snapshot else []
        found += self._close_content() + self._close_thought()
        return found if self._parser is None else found + self._numbered(self._parser.finish())

    def _read(self, delta: Delta, choice: Choice) -> list[Part]:
        found: list[Part] = []
        if delta.thought:
            found += self._close_content()
            if thought := self._thought.feed(delta.thought):
                found.append(Reasoning(thought))
            self._thinking = True
        if delta.text and not self._thought.met:
            found += self._close_thought()
            self._thinking = False
        self._read_logprobs(delta, choice)
        if delta.text and not self._thought.met:
            found += self._text(delta.text)
        return found + self._read_calls(delta)

    def _read_logprobs(self, delta: Delta, choice: Choice) -> None:
        """A token may have no text of its own yet; one at the end that has none is the end token."""
        ended = choice.finish_reason is not None and not delta.text
        if self._logprobs is not None and choice.logprobs is not None and not (self._thinking or ended):
            self._logprobs.read(choice.logprobs)

    def _read_calls(self, delta: Delta) -> list[Part]:
        found: list[Part] = []
        for call in (delta.tool_calls or ()) if not self.stopped else ():
            found += self._close_content() + self._close_thought()
            found += self._calls.feed(call)
        return found

    def _read_snapshot(self, delta: Delta) -> list[Part]:
        """Arguments of calls are added to, as in every stream; reasoning too."""
        found: list[Part] = [Reasoning(delta.thought)] if delta.thought else []
        return found + self._read_calls(delta)

    def _text(self, text: str) -> list[Part]:
        shown = self._content.feed(text)
        if self._parser is not None:
            return self._numbered(self._parser.feed(shown))
        return [Content(shown)] if shown else []

    def _close_content(self) -> list[Part]:
        """Something else comes: no stop string goes on there."""
        held = self._content.flush()
        if self._parser is not None:
            return self._numbered(self._parser.feed(held))
        return [Content(held)] if held else []

    def _close_thought(self) -> list[Part]:
        held = self._thought.flush()
        return [Reasoning(held)] if held else []

    @contextmanager
    def _making_sense(self) -> Iterator[None]:
        """Calls that cannot be told are an error of the lane's."""
        try:
            yield
        except CallError as error:
            raise UpstreamError(
                f"{self._endpoint.told} sent calls that make no sense: {error}.", hint=self._endpoint.look
            ) from None

    def _numbered(self, parts: list[Part]) -> list[Part]:
        """The parser's calls are numbered together with those that the lane told as such."""
        return [self._renumbered(part) if isinstance(part, ToolPiece) else part for part in parts]

    def _renumbered(self, piece: ToolPiece) -> ToolPiece:
        if piece.index not in self._parsed:
            self._parsed[piece.index] = next(self._numbers)
        return replace(piece, index=self._parsed[piece.index])

    def _news(self, found: list[Part], frame: Frame | None, progress: bool, *, last: bool = False) -> News:
        parts = merged(part for part in found if self._wanted(part))
        self._parts += parts
        for part in parts:
            self._whole.add(part)
            self._size += len(part.arguments if isinstance(part, ToolPiece) else part.text)
        if self._size > MAX_ANSWER:
            raise UpstreamError(f"{self._endpoint.told} goes on and on: its answer has {self._size} characters.")
        if self._logprobs is None:
            return News(parts, frame, None, [], progress)
        entries, runs = self._logprobs.shown(parts, cut=self.stopped, last=last and not self.stopped)
        return News(parts, frame, entries, runs, progress)

    def _wanted(self, part: Part) -> bool:
        """Where one call is wanted, a second one and all that follows it are dropped."""
        self._dropping |= self._asked.reading.one_call and isinstance(part, ToolPiece) and part.index > 0
        return not self._dropping

    def _frame(self, text: str) -> Frame | None:
        if not self._asked.frames:
            return None
        guess = self._spellings.guess(text)
        return Frame([MASK], block_length=1, first_block=1, decided=[0], confidence=[-1.0], guesses=[guess])

    def _answer(self, finish: FinishReason) -> Answer:
        asked, counts, whole = self._asked, self._counts, self._whole
        if asked.max_tokens is not None and finish == "stop" and not self.stopped:
            # Who rounds limits up, or does not tell why it ended, does not say so either.
            most = asked.max_tokens if self._finish and asked.tells_end else asked.max_tokens - 1
            finish = "length" if (counts.told_completion or 0) > most else finish
        completion = LaneCompletion(
            finish_reason=finish,
            prompt_tokens=counts.prompt,
            completion_tokens=counts.completion,
            stats=RequestStats(cached=min(counts.cached, counts.prompt)),
            lane=self._endpoint.lane,
            applied=asked.applied,
            stopped_by=self._content.met or self._thought.met or self._told_stop,
            estimated=counts.estimated,
        )
        calls = whole.tool_calls
        return Answer(
            content=whole.content,
            reasoning=whole.reasoning,
            tool_calls=calls,
            reasoning_tokens=counts.reasoning if whole.reasoning else 0,
            logprobs=None if self._logprobs is None else self._logprobs.all,
            completion=completion,
            parts=merged(self._parts),
            broken_off=bool(calls) and not self._dropping and not is_object(calls[-1].arguments),
        )


def _arguments(delta: Delta) -> str:
    return "".join(str(call.function.arguments or "") for call in delta.tool_calls or () if call.function)

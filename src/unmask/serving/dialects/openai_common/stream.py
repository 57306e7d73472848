"""From deltas of answers to the chunks of a streamed answer. Pure: no clock, no I/O."""

from __future__ import annotations

import abc
from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.parts import Content, Part
from unmask.events import TokenLogprob, WireFinish
from unmask.serving import sse
from unmask.serving.dialects.openai_common.envelope import envelope
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_common.wire import Chunk, Usage
from unmask.serving.errors import Problem
from unmask.serving.extension import GenerationReport
from unmask.serving.frames import FrameExtension, FrameWriter

Logprobs = list[TokenLogprob]


class ChunkStream(abc.ABC):
    """The events of one streamed response: parts of answers, canvas frames, finishes, usage, ``[DONE]``.

    A dialect says what its choices look like. An error ends the stream with an error event: never assistant text,
    never ``[DONE]``.
    """

    media_type: ClassVar[str] = sse.EVENT_STREAM
    keep_alive: ClassVar[bytes | None] = sse.COMMENT
    kind: ClassVar[str]  # the chunks' ``object``

    def __init__(self, head: Head, cells: Cells, *, include_usage: bool, copies: int) -> None:
        self._head = head
        self._cells = cells
        self._include_usage = include_usage
        self._copies = copies
        self._frames = FrameWriter(cells)
        self._answers: dict[int, Answer] = {}

    @abc.abstractmethod
    def _choice(
        self,
        number: int,
        part: Part | None = None,
        finish: WireFinish | None = None,
        logprobs: Logprobs | None = None,
    ) -> msgspec.Struct:
        """The choice of request ``number`` in a chunk; ``logprobs``, if there are any, belong to ``part``."""

    def start(self) -> list[bytes]:
        """Nothing, if the dialect has nothing to announce."""
        return []

    def step(self, number: int, delta: AnswerDelta) -> list[bytes]:
        """The parts of ``delta``, its canvas frame, and the finish with the request's report."""
        events = self._parts(number, delta)
        events += [self._chunk(self._choice(number), unmask=frame) for frame in self._frames.write(number, delta)]
        if delta.answer is not None:
            self._answers[number] = delta.answer
            last = self._choice(number, finish=delta.answer.finish)
            events.append(self._chunk(last, unmask=GenerationReport.of(delta.answer.completion)))
        return events

    def _parts(self, number: int, delta: AnswerDelta) -> list[bytes]:
        """A chunk for each part; log-probabilities go with the first content, or by themselves."""
        logprobs, events = delta.logprobs, []
        for part in delta.parts:
            own, logprobs = (logprobs, None) if isinstance(part, Content) else (None, logprobs)
            events.append(self._chunk(self._choice(number, part, logprobs=own)))
        if logprobs:
            events.append(self._chunk(self._choice(number, logprobs=logprobs)))
        return events

    def end(self) -> list[bytes]:
        """The usage of all requests, if it was asked for: last of all chunks, without a choice."""
        answers = [answer for _, answer in sorted(self._answers.items())]
        usage = [self._chunk(usage=Usage.of(answers, self._copies))] if self._include_usage else []
        return [*usage, sse.DONE]

    def fail(self, problem: Problem) -> bytes:
        """The error event."""
        return self.refuse(problem)

    @staticmethod
    def refuse(problem: Problem) -> bytes:
        """The same event, of a request that was not begun."""
        return sse.data(envelope(problem))

    def _chunk(
        self,
        *choices: msgspec.Struct,
        usage: Usage | None = None,
        unmask: GenerationReport | FrameExtension | UnsetType = UNSET,
    ) -> bytes:
        chunk = Chunk(
            id=self._head.id,
            object=self.kind,
            created=self._head.created,
            model=self._head.model,
            choices=list(choices),
            usage=usage if self._include_usage else UNSET,
            unmask=unmask,
        )
        return sse.data(chunk)

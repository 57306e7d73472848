"""From text deltas to the chunks of a streamed answer. Pure: no clock, no I/O."""

from __future__ import annotations

import abc
from collections import Counter
from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from unmask.engine.completion import Completion
from unmask.engine.text import CellDecoder, TextDelta
from unmask.events import TokenLogprob, WireFinish, wire_finish
from unmask.serving import sse
from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.envelope import envelope
from unmask.serving.dialects.openai_common.wire import Chunk, Usage
from unmask.serving.errors import Problem
from unmask.serving.extension import CanvasFrame, FrameExtension, GenerationReport

Logprobs = list[TokenLogprob]


class ChunkStream(abc.ABC):
    """The events of one streamed response: text, canvas frames, finishes, usage, ``[DONE]``.

    A dialect says what its choices look like. An error ends the stream with an error event: never assistant text,
    never ``[DONE]``.
    """

    kind: ClassVar[str]  # the chunks' ``object``

    def __init__(self, head: Head, cells: CellDecoder, *, include_usage: bool) -> None:
        self._head = head
        self._cells = cells
        self._include_usage = include_usage
        self._frames: Counter[int] = Counter()
        self._completions: list[Completion] = []

    @abc.abstractmethod
    def _choice(
        self, number: int, text: str = "", finish: WireFinish | None = None, logprobs: Logprobs | None = None
    ) -> msgspec.Struct:
        """The choice of request ``number`` in a chunk; ``logprobs``, if there are any, belong to ``text``."""

    def start(self) -> list[bytes]:
        """Nothing, if the dialect has nothing to announce."""
        return []

    def step(self, number: int, delta: TextDelta) -> list[bytes]:
        """The text of ``delta`` if it has any, its canvas frame, and the finish with the request's report."""
        events = []
        if delta.text or delta.logprobs:
            events.append(self._chunk(self._choice(number, delta.text, logprobs=delta.logprobs)))
        if delta.frame is not None:
            self._frames[number] += 1
            frame = CanvasFrame.of(self._frames[number], delta, self._cells)
            events.append(self._chunk(self._choice(number), unmask=FrameExtension(frame)))
        if delta.completion is not None:
            self._completions.append(delta.completion)
            last = self._choice(number, finish=wire_finish(delta.completion.finish_reason))
            events.append(self._chunk(last, unmask=GenerationReport.of(delta.completion)))
        return events

    def end(self) -> list[bytes]:
        """The usage of all requests, if it was asked for: last of all chunks, without a choice."""
        usage = [self._chunk(usage=Usage.of(self._completions))] if self._include_usage else []
        return [*usage, sse.DONE]

    def fail(self, problem: Problem) -> bytes:
        """The error event."""
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

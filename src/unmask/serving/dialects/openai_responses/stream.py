"""The events of a streamed response. Pure: no clock, no I/O."""

from __future__ import annotations

from typing import ClassVar

from unmask.answers.answer import AnswerDelta
from unmask.answers.cells import Cells
from unmask.serving import sse
from unmask.serving.dialects.openai_responses import events
from unmask.serving.dialects.openai_responses.draft import Draft
from unmask.serving.dialects.openai_responses.events import Event
from unmask.serving.dialects.openai_responses.response import fail
from unmask.serving.errors import Problem
from unmask.serving.frames import FrameWriter


class ResponseStream:
    """Numbers the events of ``draft`` and puts those around them that every response has.

    An error ends the stream with ``error`` and ``response.failed``: never assistant text, never a finish.
    """

    media_type: ClassVar[str] = sse.EVENT_STREAM
    keep_alive: ClassVar[bytes | None] = sse.COMMENT

    def __init__(self, draft: Draft, cells: Cells) -> None:
        self._draft = draft
        self._frames = FrameWriter(cells)
        self._sent = 0

    def start(self) -> list[bytes]:
        """The response as it was asked for, twice, as clients expect."""
        response = self._draft.response
        return [self._send(events.Created(response=response)), self._send(events.InProgress(response=response))]

    def step(self, number: int, delta: AnswerDelta) -> list[bytes]:
        """The news of the output, and the canvas frame."""
        told: list[Event] = self._draft.write(delta)
        told += [events.CanvasShown(unmask=frame) for frame in self._frames.write(number, delta)]
        return [self._send(event) for event in told]

    def end(self) -> list[bytes]:
        """The whole response."""
        response = self._draft.response
        kind = events.Completed if response.status == "completed" else events.Incomplete
        return [self._send(kind(response=response))]

    def fail(self, problem: Problem) -> bytes:
        """What went wrong, twice: in our words, and in the few that the response object has."""
        error = events.ErrorEvent(code=problem.code, message=problem.message, param=problem.param)
        failed = events.Failed(response=fail(self._draft.response, problem, self._draft.output))
        return self._send(error) + self._send(failed)

    @staticmethod
    def refuse(problem: Problem) -> bytes:
        """Only our words: there is no response that could have failed."""
        error = events.ErrorEvent(code=problem.code, message=problem.message, param=problem.param, sequence_number=0)
        return sse.data(error, error.type)

    def _send(self, event: Event) -> bytes:
        event.sequence_number = self._sent
        self._sent += 1
        return sse.data(event, event.type)

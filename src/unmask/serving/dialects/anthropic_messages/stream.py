"""From deltas of an answer to the events of a streamed message. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Container
from typing import ClassVar

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.parts import Content, Part, Reasoning, ToolPiece
from unmask.serving import sse
from unmask.serving.call_input import input_text
from unmask.serving.dialects.anthropic_messages.encode import Head, sign, stop_reason
from unmask.serving.dialects.anthropic_messages.envelope import envelope
from unmask.serving.dialects.anthropic_messages.events import (
    BlockDelta,
    BlockStart,
    BlockStop,
    CanvasShown,
    Delta,
    Ending,
    InputDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
    event,
)
from unmask.serving.dialects.anthropic_messages.message import Block, Message, Text, Thinking, ToolUse, Usage
from unmask.serving.errors import Problem
from unmask.serving.extension import GenerationReport
from unmask.serving.frames import FrameWriter


class MessageStream:
    """The events of one message: its start, each block's start, deltas and stop, then why it ended.

    One block is open at a time, none is empty but for a call without input, and their indices are 0, 1, 2, ... A call's
    input is held back until it is known to be JSON, which client libraries rely on; that of ``eager`` tools is sent as
    it comes. An error ends the stream with an error event: no block is closed, and nothing says that the message
    stopped.
    """

    media_type: ClassVar[str] = sse.EVENT_STREAM
    keep_alive: ClassVar[bytes | None] = event(Ping())

    def __init__(self, head: Head, cells: Cells, prompt_tokens: int, eager: Container[str] = ()) -> None:
        self._head = head
        self._frames = FrameWriter(cells)
        self._prompt_tokens = prompt_tokens
        self._eager = eager
        self._index = -1
        self._block: Block | None = None  # the open one, as it began
        self._kept: list[str] = []  # of the open block: reasoning to be signed, or input that is held back

    def start(self) -> list[bytes]:
        """The empty message."""
        message = Message(
            id=self._head.id,
            model=self._head.model,
            content=[],
            stop_reason=None,
            stop_sequence=None,
            usage=Usage.begin(self._prompt_tokens),
        )
        return [event(MessageStart(message))]

    def step(self, number: int, delta: AnswerDelta) -> list[bytes]:
        """The parts of ``delta``, its canvas frame, and the message's end."""
        events = [one for part in delta.parts for one in self._part(part)]
        events += [event(CanvasShown(frame)) for frame in self._frames.write(number, delta)]
        if delta.answer is not None:
            events += [*self._close(), _ending(delta.answer)]
        return events

    def end(self) -> list[bytes]:
        """The message is complete."""
        return [event(MessageStop())]

    def fail(self, problem: Problem) -> bytes:
        """The error event."""
        return self.refuse(problem)

    @staticmethod
    def refuse(problem: Problem) -> bytes:
        """The same event, of a request that was not begun."""
        return event(envelope(problem))

    def _part(self, part: Part) -> list[bytes]:
        match part:
            case Content(text):
                return [*self._open(Text("")), self._delta(TextDelta(text))]
            case Reasoning(text):
                events = [*self._open(Thinking("", "")), self._delta(ThinkingDelta(text))]
                self._kept.append(text)
                return events
            case ToolPiece():
                return self._call(part)

    def _call(self, piece: ToolPiece) -> list[bytes]:
        """A piece with a name begins a call; others go on with it."""
        events = []
        if piece.name is not None:
            events = self._open(ToolUse(self._head.call_id(piece.index), piece.name, {}))
        assert isinstance(self._block, ToolUse), "a call's pieces come in a row"
        if self._block.name not in self._eager:
            self._kept.append(piece.arguments)
        elif piece.arguments:
            events.append(self._delta(InputDelta(piece.arguments)))
        return events

    def _open(self, block: Block) -> list[bytes]:
        """Begin ``block``, unless it is the open one that goes on."""
        if block == self._block:
            return []
        events = self._close()
        self._index += 1
        self._block = block
        return [*events, event(BlockStart(self._index, block))]

    def _close(self) -> list[bytes]:
        """End the open block, if there is one."""
        if self._block is None:
            return []
        kept = "".join(self._kept)
        events = [event(BlockStop(self._index))]
        if kept and isinstance(self._block, Thinking):
            events.insert(0, self._delta(SignatureDelta(sign(kept))))
        elif kept:
            events.insert(0, self._delta(InputDelta(input_text(kept))))
        self._block, self._kept = None, []
        return events

    def _delta(self, delta: Delta) -> bytes:
        return event(BlockDelta(self._index, delta))


def _ending(answer: Answer) -> bytes:
    ending = Ending(stop_reason(answer), answer.completion.stopped_by)
    return event(MessageDelta(ending, Usage.of(answer), GenerationReport.of(answer.completion)))

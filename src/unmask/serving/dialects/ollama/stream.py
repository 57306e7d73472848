"""From deltas of an answer to lines of a streamed one. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from unmask.answers.answer import AnswerDelta
from unmask.answers.cells import Cells
from unmask.answers.parts import Content, Part, Reasoning, ToolCall, ToolPiece
from unmask.events import TokenLogprob
from unmask.serving.dialects.ollama.encode import Head, call, encode_logprobs, ending
from unmask.serving.dialects.ollama.envelope import envelope
from unmask.serving.dialects.ollama.lines import CalledTool
from unmask.serving.errors import Problem
from unmask.serving.frames import FrameExtension, FrameWriter


class LineStream:
    """The lines of one answer: a line for each part, whole calls, canvas frames, and the end with its cost.

    Nothing can be sent that says nothing: clients take every line for JSON. An error is the last line.
    """

    media_type: ClassVar[str] = "application/x-ndjson"
    keep_alive: ClassVar[bytes | None] = None

    def __init__(self, head: Head, cells: Cells) -> None:
        self._head = head
        self._cells = cells
        self._frames = FrameWriter(cells)
        self._calls = 0
        self._call: ToolCall | None = None  # the one that goes on

    def start(self) -> list[bytes]:
        """Nothing yet."""
        return []

    def step(self, number: int, delta: AnswerDelta) -> list[bytes]:
        """The parts of ``delta``, its canvas frame, and the end."""
        logprobs, lines = delta.logprobs, []
        for part in delta.parts:
            own, logprobs = (logprobs, None) if isinstance(part, Content) else (None, logprobs)
            lines += self._part(part, own)
        if logprobs:
            lines.append(self._line(logprobs=logprobs))
        lines += [self._frame(frame) for frame in self._frames.write(number, delta)]
        if delta.answer is not None:
            calls = [] if delta.answer.broken_off else self._finished()
            lines += [self._line(calls=calls)] if calls else []
            lines.append(_encoded(self._head.write(**ending(delta.answer))))
        return lines

    def end(self) -> list[bytes]:
        """Nothing more."""
        return []

    def fail(self, problem: Problem) -> bytes:
        """The line that tells of an error."""
        return self.refuse(problem)

    @staticmethod
    def refuse(problem: Problem) -> bytes:
        """The same line, of a request that was not begun."""
        return _encoded(envelope(problem))

    def _part(self, part: Part, logprobs: list[TokenLogprob] | None) -> list[bytes]:
        if isinstance(part, ToolPiece) and part.name is None:
            assert self._call is not None, "a call's pieces come in a row"
            self._call = ToolCall(self._call.name, self._call.arguments + part.arguments)
            return []
        calls = self._finished()
        lines = [self._line(calls=calls)] if calls else []
        match part:
            case Content(text):
                lines.append(self._line(text, logprobs=logprobs))
            case Reasoning(text):
                lines.append(self._line(thinking=text))
            case ToolPiece(arguments=arguments, name=str(name)):
                self._call = ToolCall(name, arguments)
        return lines

    def _finished(self) -> list[CalledTool]:
        """The call that went on, now that something else has come."""
        if self._call is None:
            return []
        calls = [call(self._head, self._calls, self._call)]
        self._calls += 1
        self._call = None
        return calls

    def _line(
        self,
        content: str = "",
        thinking: str = "",
        calls: Sequence[CalledTool] = (),
        logprobs: list[TokenLogprob] | None = None,
    ) -> bytes:
        return _encoded(self._head.write(content, thinking, calls, logprobs=encode_logprobs(logprobs, self._cells)))

    def _frame(self, frame: FrameExtension) -> bytes:
        canvas = frame.canvas
        total = len(canvas.cells) + canvas.tail
        return _encoded(self._head.write(completed=total - canvas.masked, total=total, unmask=frame))


def _encoded(line: msgspec.Struct) -> bytes:
    return msgspec.json.encode(line) + b"\n"

"""From an answer to the response body."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from unmask.answers.answer import Answer
from unmask.answers.parts import Content, Part, Reasoning, ToolPiece
from unmask.serving.call_input import input_text, parse_input
from unmask.serving.dialects.anthropic_messages.message import (
    Block,
    Message,
    StopReason,
    Text,
    Thinking,
    ToolUse,
    Usage,
)
from unmask.serving.extension import GenerationReport

_STOP_REASONS: dict[str, StopReason] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of one response, streamed or not."""

    id: str
    model: str

    @classmethod
    def new(cls, model: str) -> Head:
        """A head with a fresh id."""
        return cls(f"msg_{secrets.token_hex(12)}", model)

    def call_id(self, index: int) -> str:
        """The id of the answer's ``index``-th call: no two are alike, in whatever response."""
        return f"toolu_{self.id.removeprefix('msg_')}_{index}"


def encode(head: Head, answer: Answer) -> Message:
    """The whole answer; equal to what the events of ``MessageStream`` add up to."""
    return Message(
        id=head.id,
        model=head.model,
        content=[_block(head, part) for part in answer.parts],
        stop_reason=stop_reason(answer),
        stop_sequence=answer.completion.stopped_by,
        usage=Usage.of(answer),
        unmask=GenerationReport.of(answer.completion),
    )


def stop_reason(answer: Answer) -> StopReason:
    """Why the answer ended."""
    return "stop_sequence" if answer.completion.stopped_by is not None else _STOP_REASONS[answer.finish]


def sign(thinking: str) -> str:
    """A signature, without which clients would not send ``thinking`` back: a checksum of it."""
    return hashlib.sha256(thinking.encode()).hexdigest()


def _block(head: Head, part: Part) -> Block:
    match part:
        case Content(text):
            return Text(text)
        case Reasoning(text):
            return Thinking(text, sign(text))
        case ToolPiece():
            return ToolUse(head.call_id(part.index), part.name or "", parse_input(input_text(part.arguments)))

"""The message that answers: its blocks, and what it cost."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from unmask.answers.answer import Answer
from unmask.serving.extension import GenerationReport

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use"]


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text for the reader."""

    text: str


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """Reasoning; ``signature`` is a checksum of it."""

    thinking: str
    signature: str


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A call."""

    id: str
    name: str
    input: dict[str, Any]


Block = Text | Thinking | ToolUse


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """How many of the answer's tokens were reasoning."""

    thinking_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens billed; the prompt's also if they were found in the prefix cache: what this API calls cached counts apart
    from ``input_tokens``, which would then depend on who asked before.
    """

    input_tokens: int
    output_tokens: int
    output_tokens_details: OutputTokensDetails

    @classmethod
    def begin(cls, prompt_tokens: int) -> Usage:
        """Before anything is known but the prompt."""
        return cls(prompt_tokens, 0, OutputTokensDetails(0))

    @classmethod
    def of(cls, answer: Answer) -> Usage:
        """The usage of a finished answer."""
        completion = answer.completion
        details = OutputTokensDetails(answer.reasoning_tokens)
        return cls(completion.prompt_tokens, completion.completion_tokens, details)


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """The response body; in a stream's first event, the same without what is not known yet."""

    id: str
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: Usage
    unmask: GenerationReport | UnsetType = UNSET

"""Items: what a conversation consists of, in requests, in responses, and where they are kept."""

from __future__ import annotations

from typing import Literal

import msgspec

from unmask.serving.logprobs import Logprob

ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    """A piece of what was said to the model."""

    text: str


class OutputText(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    """What the model said. There are no annotations."""

    text: str
    annotations: list[str] = []
    logprobs: list[Logprob] = []


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    """What the model wrote for itself."""

    text: str


class SummaryText(msgspec.Struct, frozen=True, tag_field="type", tag="summary_text"):
    """Somebody's summary of it. We write none."""

    text: str


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """A message: ``output_text`` from the assistant, ``input_text`` from all others."""

    id: str
    role: Literal["user", "assistant", "system", "developer"]
    content: list[InputText | OutputText]
    status: ItemStatus = "completed"

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(part.text for part in self.content)


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    """A call; ``arguments`` is JSON text."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus = "completed"


class FunctionCallOutput(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call_output"):
    """What came of a call."""

    id: str
    call_id: str
    output: str
    status: ItemStatus = "completed"


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """How the model came to what follows."""

    id: str
    summary: list[SummaryText] = []
    content: list[ReasoningText] = []
    status: ItemStatus = "completed"

    @property
    def text(self) -> str:
        """All of it, or what a summary says."""
        parts: list[ReasoningText] | list[SummaryText] = self.content or self.summary
        return "".join(part.text for part in parts)


Item = Message | FunctionCall | FunctionCallOutput | ReasoningItem
OutputItem = Message | FunctionCall | ReasoningItem

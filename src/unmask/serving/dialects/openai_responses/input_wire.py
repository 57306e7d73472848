"""The schema of ``input``: items as clients send them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from unmask.serving.wire import Only, WireModel

_Id = Annotated[str, Field(max_length=128)]
_Status = Literal["in_progress", "completed", "incomplete"]


def _kind(content: Any) -> str:
    return "<parts>" if isinstance(content, list) else "<text>"


class TextPart(WireModel):
    """A piece of a message. Answers may be sent back as they came, so there are their log-probabilities too."""

    type: Annotated[str, Only("input_text", "output_text")]
    text: str
    annotations: Annotated[Any, Only([])] = None
    logprobs: Any = None  # without effect


_Parts = Annotated[list[TextPart], Field(max_length=1024, fail_fast=True)]

Content = Annotated[Annotated[str, Tag("<text>")] | Annotated[_Parts, Tag("<parts>")], Discriminator(_kind)]


class MessageItem(WireModel):
    """A message, of somebody or an earlier answer."""

    type: Literal["message"] = "message"
    role: Annotated[str, Only("user", "assistant", "system", "developer")]
    content: Content
    id: _Id | None = None
    status: _Status | None = None
    phase: Annotated[Any, Only()] = None


class CallItem(WireModel):
    """A call in an earlier answer. OpenAI's client dumps one with ``async_``, a name of its own."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: _Id | None = None
    status: _Status | None = None
    namespace: Annotated[Any, Only()] = None
    caller: Annotated[Any, Only()] = None
    async_: Annotated[Any, Only(False)] = None


class CallOutputItem(WireModel):
    """What came of a call."""

    type: Literal["function_call_output"]
    call_id: str
    output: Content
    id: _Id | None = None
    status: _Status | None = None
    name: Annotated[Any, Only()] = None
    namespace: Annotated[Any, Only()] = None
    caller: Annotated[Any, Only()] = None


class ThoughtPart(WireModel):
    """A piece of reasoning, or of a summary."""

    type: Literal["reasoning_text", "summary_text"]
    text: str


_Thoughts = Annotated[list[ThoughtPart], Field(max_length=1024, fail_fast=True)]


class ReasoningItem(WireModel):
    """The reasoning of an earlier answer. What another server has encrypted cannot be read here."""

    type: Literal["reasoning"]
    id: _Id | None = None
    summary: _Thoughts | None = None
    content: _Thoughts | None = None
    status: _Status | None = None
    encrypted_content: Annotated[Any, Only()] = None


_KINDS = ("message", "function_call", "function_call_output", "reasoning")


class OtherItem(WireModel):
    """What is not supported."""

    type: Annotated[str, Only(*_KINDS)]


def _item_kind(item: Any) -> str:
    """A message need not say that it is one."""
    if not isinstance(item, dict):
        return "<message>"
    kind = item.get("type", "message")
    known = isinstance(kind, str) and kind in _KINDS
    return f"<{kind}>" if known else "<other>"


InputItem = Annotated[
    Annotated[MessageItem, Tag("<message>")]
    | Annotated[CallItem, Tag("<function_call>")]
    | Annotated[CallOutputItem, Tag("<function_call_output>")]
    | Annotated[ReasoningItem, Tag("<reasoning>")]
    | Annotated[OtherItem, Tag("<other>")],
    Discriminator(_item_kind),
]

MAX_ITEMS = 4096  # a context holds fewer

_Items = Annotated[list[InputItem], Field(min_length=1, max_length=MAX_ITEMS, fail_fast=True)]


def _input_kind(value: Any) -> str:
    return "<items>" if isinstance(value, list) else "<text>"


Input = Annotated[Annotated[str, Tag("<text>")] | Annotated[_Items, Tag("<items>")], Discriminator(_input_kind)]

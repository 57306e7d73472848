"""The messages of a conversation, on the wire and as chat templates take them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from unmask.serving.wire import Only, WireModel


class TextPart(WireModel):
    """A piece of a message's content; other types than text are not supported."""

    type: Annotated[str, Only("text")]
    text: str


def _kind(content: Any) -> str:
    return "<parts>" if isinstance(content, list) else "<text>"


_Parts = Annotated[list[TextPart], Field(max_length=1024, fail_fast=True)]

Content = Annotated[Annotated[str, Tag("<text>")] | Annotated[_Parts, Tag("<parts>")], Discriminator(_kind)]


class Message(WireModel):
    """A message of the conversation. What an earlier answer of ours holds may be sent back as it came."""

    role: Annotated[str, Only("system", "developer", "user", "assistant")]
    content: Content
    name: Annotated[Any, Only()] = None
    refusal: Annotated[Any, Only()] = None
    audio: Annotated[Any, Only()] = None
    function_call: Annotated[Any, Only()] = None
    tool_calls: Annotated[Any, Only([])] = None
    annotations: Annotated[Any, Only([])] = None


# One bad message is enough to refuse all; and a context holds fewer than this many.
Messages = Annotated[list[Message], Field(min_length=1, max_length=4096, fail_fast=True)]


def parse_messages(messages: list[Message]) -> list[dict[str, str]]:
    """The conversation as chat templates expect it."""
    return [{"role": _role(message.role), "content": _text(message.content)} for message in messages]


def _role(role: str) -> str:
    """Newer clients say "developer" where chat templates say "system"."""
    return "system" if role == "developer" else role


def _text(content: Content) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)

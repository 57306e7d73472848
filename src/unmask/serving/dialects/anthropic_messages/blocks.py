"""Content blocks of a conversation, as requests have them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from unmask.serving.wire import Only, WireModel


class CacheControl(WireModel):
    """Where clients would have a prompt cached. Without effect: whatever prompts have in common is, unasked."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None
    scope: str | None = None


class TextBlock(WireModel):
    """A piece of text."""

    type: Annotated[str, Only("text")]
    text: str
    cache_control: CacheControl | None = None
    citations: Annotated[Any, Only([])] = None


class ThinkingBlock(WireModel):
    """The reasoning of an earlier answer; its ``signature`` is not checked."""

    type: Literal["thinking"]
    thinking: str
    signature: str = ""


class ToolUseBlock(WireModel):
    """A call in an earlier answer."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    cache_control: CacheControl | None = None
    caller: Annotated[Any, Only({"type": "direct"})] = None
    toolset_name: Annotated[Any, Only()] = None


def _kind(content: Any) -> str:
    return "<blocks>" if isinstance(content, list) else "<text>"


_Text = Annotated[str, Tag("<text>")]
_Texts = Annotated[list[TextBlock], Field(max_length=1024, fail_fast=True), Tag("<blocks>")]

Texts = Annotated[_Text | _Texts, Discriminator(_kind)]


class ToolResultBlock(WireModel):
    """What came of a call. ``is_error`` is without effect: ``content`` says what went wrong."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Texts | None = None
    is_error: bool | None = None
    cache_control: CacheControl | None = None
    toolset_name: Annotated[Any, Only()] = None


class OtherBlock(WireModel):
    """Images, documents and the rest are refused by their type."""

    type: Annotated[str, Only("text", "thinking", "tool_use", "tool_result")]


_KINDS = ("text", "thinking", "tool_use", "tool_result")


def _block_kind(block: Any) -> str:
    kind = block.get("type") if isinstance(block, dict) else None
    return f"<{kind}>" if kind in _KINDS else "<other>"


Block = Annotated[
    Annotated[TextBlock, Tag("<text>")]
    | Annotated[ThinkingBlock, Tag("<thinking>")]
    | Annotated[ToolUseBlock, Tag("<tool_use>")]
    | Annotated[ToolResultBlock, Tag("<tool_result>")]
    | Annotated[OtherBlock, Tag("<other>")],
    Discriminator(_block_kind),
]
_Blocks = Annotated[list[Block], Field(min_length=1, max_length=1024, fail_fast=True), Tag("<blocks>")]

Content = Annotated[_Text | _Blocks, Discriminator(_kind)]


class Message(WireModel):
    """A turn of the conversation. Calls, their results and reasoning are blocks of its content."""

    foreign_names: ClassVar[dict[str, str]] = {
        "tool_calls": "content",
        "tool_call_id": "content",
        "reasoning_content": "content",
        "thinking": "content",
    }

    role: Annotated[str, Only("user", "assistant", "system")]
    content: Content


# One bad message is enough to refuse all; and a context holds fewer than this many.
Messages = Annotated[list[Message], Field(min_length=1, max_length=4096, fail_fast=True)]

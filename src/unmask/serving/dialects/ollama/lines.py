"""What answers consist of: lines of JSON, of which the last one tells the cost. A whole answer is one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from unmask.serving.logprobs import Logprob

DoneReason = Literal["stop", "length", "load", "unload"]


class CalledFunction(msgspec.Struct, frozen=True):
    """What is called; ``index`` counts the answer's calls."""

    index: int
    name: str
    arguments: dict[str, Any]


class CalledTool(msgspec.Struct, frozen=True):
    """A call."""

    id: str
    function: CalledFunction


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What lines of both endpoints have. Durations are nanoseconds. ``unmask`` is the report, or a canvas frame: of its
    ``total`` cells, ``completed`` are decided.
    """

    model: str
    created_at: str
    done: bool = False
    done_reason: DoneReason | UnsetType = UNSET
    total_duration: int | UnsetType = UNSET
    load_duration: int | UnsetType = UNSET
    prompt_eval_count: int | UnsetType = UNSET
    prompt_eval_cached_count: int | UnsetType = UNSET
    prompt_eval_duration: int | UnsetType = UNSET
    eval_count: int | UnsetType = UNSET
    eval_duration: int | UnsetType = UNSET
    logprobs: list[Logprob] | UnsetType = UNSET
    completed: int | UnsetType = UNSET
    total: int | UnsetType = UNSET
    unmask: msgspec.Struct | UnsetType = UNSET


class Message(msgspec.Struct, frozen=True):
    """The assistant's message, or what a line adds to it."""

    content: str
    thinking: str | UnsetType = UNSET
    tool_calls: list[CalledTool] | UnsetType = UNSET
    role: Literal["assistant"] = "assistant"


class ChatLine(Line, frozen=True, kw_only=True):
    """A line of /api/chat."""

    message: Message


class GenerateLine(Line, frozen=True, kw_only=True):
    """A line of /api/generate."""

    response: str
    thinking: str | UnsetType = UNSET


class MakeLine(Protocol):
    """How an endpoint writes a line that brings ``content``, ``thinking`` or ``calls``."""

    def __call__(self, content: str = "", thinking: str = "", calls: Sequence[CalledTool] = (), **more: Any) -> Line:
        """The line, with ``more`` of the fields that all lines have."""


def chat_line(content: str = "", thinking: str = "", calls: Sequence[CalledTool] = (), **more: Any) -> ChatLine:
    """A line of /api/chat."""
    return ChatLine(message=Message(content, thinking or UNSET, [*calls] or UNSET), **more)


def generate_line(content: str = "", thinking: str = "", calls: Sequence[CalledTool] = (), **more: Any) -> GenerateLine:
    """A line of /api/generate, where there are no calls."""
    assert not calls, "no tools were offered"
    return GenerateLine(response=content, thinking=thinking or UNSET, **more)

"""The messages of a conversation, on the wire and as chat templates take them."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import Discriminator, Field, Tag

from unmask.answers.chat import template_call
from unmask.errors import InvalidValueError
from unmask.serving.wire import Only, WireModel

_ARGUMENTS = msgspec.json.Decoder(dict[str, Any])


class TextPart(WireModel):
    """A piece of a message's content; other types than text are not supported."""

    type: Annotated[str, Only("text")]
    text: str


def _kind(content: Any) -> str:
    return "<parts>" if isinstance(content, list) else "<text>"


_Parts = Annotated[list[TextPart], Field(max_length=1024, fail_fast=True)]

Content = Annotated[Annotated[str, Tag("<text>")] | Annotated[_Parts, Tag("<parts>")], Discriminator(_kind)]


class CalledFunction(WireModel):
    """What an earlier answer called; ``arguments`` is JSON text."""

    name: str
    arguments: str


class CalledTool(WireModel):
    """A call in an earlier answer. ``index`` comes along from clients that put streamed calls together."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


_Calls = Annotated[list[CalledTool], Field(max_length=128, fail_fast=True)]


class Message(WireModel):
    """A message of the conversation. What an earlier answer of ours holds may be sent back as it came.

    A ``name`` is the chat template's to show; most show none.
    """

    foreign_names: ClassVar[dict[str, str]] = {
        "thinking": "reasoning_content",
        "reasoning": "reasoning_content",
        "tool_name": "name",
    }

    role: Annotated[str, Only("system", "developer", "user", "assistant", "tool")]
    content: Content | None = None
    tool_calls: _Calls | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    name: str | None = None
    refusal: Annotated[Any, Only()] = None
    audio: Annotated[Any, Only()] = None
    function_call: Annotated[Any, Only()] = None
    annotations: Annotated[Any, Only([])] = None


# One bad message is enough to refuse all; and a context holds fewer than this many.
Messages = Annotated[list[Message], Field(min_length=1, max_length=4096, fail_fast=True)]


def parse_messages(messages: list[Message]) -> list[dict[str, Any]]:
    """The conversation as chat templates expect it. Raises ``InvalidValueError`` for what does not fit its role."""
    called = {call.id: call.function.name for message in messages for call in message.tool_calls or ()}
    return [_parse(message, f"messages[{number}]", called) for number, message in enumerate(messages)]


def _parse(message: Message, path: str, called: dict[str, str]) -> dict[str, Any]:
    """``called`` has the names of the tools that were called, by the calls' ids."""
    role = "system" if message.role == "developer" else message.role  # templates know the older word only
    for field, owner in (("tool_calls", "assistant"), ("reasoning_content", "assistant"), ("tool_call_id", "tool")):
        if getattr(message, field) and role != owner:
            raise InvalidValueError(f"'{path}.{field}' belongs to the role '{owner}' only.", param=f"{path}.{field}")
    if message.content is None and not (role == "assistant" and message.tool_calls):
        raise InvalidValueError(f"'{path}.content' is missing.", param=f"{path}.content")
    parsed: dict[str, Any] = {"role": role, "content": _text(message.content or "")}
    if message.name is not None:
        parsed["name"] = message.name
    if message.reasoning_content:
        parsed["reasoning_content"] = message.reasoning_content
    if message.tool_calls:
        calls = enumerate(message.tool_calls)
        parsed["tool_calls"] = [_call(call, f"{path}.tool_calls[{number}]") for number, call in calls]
    if role == "tool":
        if not message.tool_call_id:
            raise InvalidValueError(f"'{path}.tool_call_id' is missing.", param=f"{path}.tool_call_id")
        parsed |= {"tool_call_id": message.tool_call_id, "name": message.name or called.get(message.tool_call_id, "")}
    return parsed


def _call(call: CalledTool, path: str) -> dict[str, Any]:
    return parse_call(call.id, call.function.name, call.function.arguments, f"{path}.function.arguments")


def parse_call(call_id: str, name: str, arguments: str, path: str) -> dict[str, Any]:
    """A call as templates take it, its ``arguments`` read. Raises ``InvalidValueError`` if they are none.

    Line breaks within strings, which JSON has not, are taken: models write them, and calls are told as they wrote them.
    """
    try:
        decoded = _decode(arguments or "{}")
    except (ValueError, RecursionError):
        raise InvalidValueError(f"'{path}' is no JSON object.", param=path) from None
    return template_call(call_id, name, decoded)


def _decode(arguments: str) -> dict[str, Any]:
    try:
        return _ARGUMENTS.decode(arguments)
    except msgspec.DecodeError:
        return _ARGUMENTS.decode(json.dumps(json.loads(arguments, strict=False)))


def _text(content: Content) -> str:
    return content if isinstance(content, str) else "".join(part.text for part in content)

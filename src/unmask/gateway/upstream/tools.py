"""Tools, as a lane is told of them, and how its calls are read."""

from __future__ import annotations

from typing import Any

from unmask.answers.chat import Chat
from unmask.answers.reading import Reading
from unmask.answers.syntax import HERMES, NO_SYNTAX, AnswerSyntax
from unmask.answers.tools import Tool, check_tools, forced_schema
from unmask.checkpoints.generic_tools import spell_out
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.gateway.upstream.forms import schema_fields
from unmask.gateway.upstream.understood import check_taken
from unmask.params import CONSTRAINTS

_NO_PARAMETERS = {"type": "object", "properties": {}}


def check_chat_tools(chat: Chat, endpoint: Endpoint) -> None:
    """Raises ``InvalidValueError`` for tools that are none, or a demand beside another form; ``UnsupportedValueError``
    for a promise that cannot be kept.
    """
    check_tools(chat.tools, chat.choice)
    form = next((name for name in CONSTRAINTS if getattr(chat.params, name) is not None), None)
    if chat.choice.forced and form is not None:
        raise InvalidValueError(
            f"'tool_choice' and '{form}' both say what the answer looks like.",
            hint="Give one of them.",
            param="tool_choice",
        )
    if chat.choice.forced:
        check_taken("tool_choice", endpoint)
    if not endpoint.tools and not chat.choice.forced and any(tool.strict for tool in chat.offered):
        raise UnsupportedValueError(
            f"The chat template of this model on lane '{endpoint.lane}' knows no tools: calls of 'strict' ones cannot "
            "be held to their schemas.",
            hint="Leave 'strict' out, or demand a call with 'tool_choice'.",
            param="tools",
        )


def tool_messages(chat: Chat, endpoint: Endpoint) -> list[dict[str, Any]]:
    """The conversation; all that has to do with tools is spelled out where the lane does not show them to the model."""
    spoken = any("tool_calls" in message or message["role"] == "tool" for message in chat.messages)
    if endpoint.tools or not (chat.offered or spoken):
        return chat.messages
    return spell_out(chat.messages, [_function(tool) for tool in chat.offered])


def tool_fields(chat: Chat, endpoint: Endpoint) -> dict[str, Any]:
    """What a request has of tools, and of what is demanded. Where a lane does not enforce a demand, a schema does."""
    if not chat.offered:
        return {}
    by_schema: dict[str, Any] = {}
    if _held_by_schema(chat, endpoint):
        by_schema = schema_fields(forced_schema(chat.tools, chat.choice), endpoint, chat=True)
    if not endpoint.tools:
        return by_schema
    fields: dict[str, Any] = {"tools": [_function(tool) for tool in chat.offered]}
    if by_schema:
        return fields | {"tool_choice": "none"} | by_schema
    if chat.choice.mode == "named":
        fields["tool_choice"] = {"type": "function", "function": {"name": chat.choice.name}}
    elif chat.choice.mode == "required":
        fields["tool_choice"] = "required"
    if chat.one_call or endpoint.kind == "llama.cpp":  # whose default depends on the model
        fields["parallel_tool_calls"] = not chat.one_call
    return fields


def reading_of(chat: Chat, endpoint: Endpoint) -> Reading:
    """How the answer's text is to be read, where the lane does not tell its parts."""
    offered = bool(chat.offered)
    if _held_by_schema(chat, endpoint):
        return Reading(NO_SYNTAX, tools=offered, one_call=chat.one_call, forced=True)
    syntax = endpoint.syntax
    if offered and not endpoint.tools:
        syntax = AnswerSyntax(None if syntax is None else syntax.reasoning, HERMES)
    return Reading(syntax, tools=offered, one_call=chat.one_call, opened=endpoint.opens_reasoning)


def _held_by_schema(chat: Chat, endpoint: Endpoint) -> bool:
    """Whether a demanded call is asked for by its schema: llama.cpp takes the demand for a wish."""
    return chat.choice.forced and (endpoint.kind == "llama.cpp" or not endpoint.tools)


def _function(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.parameters or _NO_PARAMETERS}
    if tool.description:
        function["description"] = tool.description
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}

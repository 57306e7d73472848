"""From messages to a conversation as chat templates take it."""

from __future__ import annotations

from typing import Any

from unmask.answers.chat import split_prefill, template_call
from unmask.errors import InvalidValueError
from unmask.serving.dialects.ollama.wire import Message

_OWNERS = {"thinking": "assistant", "tool_calls": "assistant", "tool_name": "tool", "tool_call_id": "tool"}


def parse_conversation(messages: list[Message]) -> tuple[list[dict[str, Any]], str]:
    """The conversation, and the text with which its answer begins: that of a last message of the assistant's.

    Raises ``InvalidValueError`` for what does not belong to a message's role, and what ``split_prefill`` raises.
    """
    return split_prefill([_parse(message, f"messages[{number}]") for number, message in enumerate(messages)])


def _parse(message: Message, path: str) -> dict[str, Any]:
    for field, owner in _OWNERS.items():
        if getattr(message, field) and message.role != owner:
            raise InvalidValueError(f"'{path}.{field}' belongs to the role '{owner}' only.", param=f"{path}.{field}")
    if message.content is None and not (message.tool_calls or message.thinking):
        raise InvalidValueError(f"'{path}.content' is missing.", param=f"{path}.content")
    turn: dict[str, Any] = {"role": message.role, "content": message.content or ""}
    if message.thinking:
        turn["reasoning_content"] = message.thinking
    if message.tool_calls:
        called = [(call.id, call.function) for call in message.tool_calls]
        turn["tool_calls"] = [template_call(call_id, function.name, function.arguments) for call_id, function in called]
    if message.role == "tool":
        turn |= {"tool_call_id": message.tool_call_id or "", "name": message.tool_name or ""}
    return turn

"""From items to the messages that chat templates take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unmask.errors import InvalidValueError
from unmask.serving.dialects.openai_common.messages import parse_call
from unmask.serving.dialects.openai_responses.items import (
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    ReasoningItem,
)


def chat_messages(instructions: str | None, previous: Sequence[Item], new: Sequence[Item]) -> list[dict[str, Any]]:
    """What was said: ``instructions``, then ``previous`` items and ``new`` ones.

    Raises ``InvalidValueError`` for calls whose arguments are no JSON object.
    """
    conversation = _Conversation(instructions)
    try:
        for item in previous:
            conversation.add(item, "")
    except InvalidValueError:
        raise InvalidValueError(
            "The response that 'previous_response_id' names has a call whose arguments are no JSON object.",
            hint="Go on from an earlier one.",
            param="previous_response_id",
        ) from None
    for number, item in enumerate(new):
        conversation.add(item, f"input[{number}].arguments")
    return conversation.messages


class _Conversation:
    """Adds items up. What the assistant says, thinks and calls in a row is one message, as answers to chats are."""

    def __init__(self, instructions: str | None) -> None:
        self.messages: list[dict[str, Any]] = []
        self._instructed = bool(instructions)
        self._called: dict[str, str] = {}  # names of tools, by the calls' ids
        if instructions:
            self.messages.append({"role": "system", "content": instructions})

    def add(self, item: Item, path: str) -> None:
        """The next item; ``path`` leads to its arguments."""
        match item:
            case Message(role="assistant"):
                self._turn()["content"] += item.text
            case Message(role="user"):
                self.messages.append({"role": "user", "content": item.text})
            case Message():
                self._instruct(item.text)
            case ReasoningItem():
                turn = self._turn()
                turn["reasoning_content"] = turn.get("reasoning_content", "") + item.text
            case FunctionCall(call_id=call_id, name=name):
                self._called[call_id] = name
                self._turn().setdefault("tool_calls", []).append(parse_call(call_id, name, item.arguments, path))
            case FunctionCallOutput(call_id=call_id, output=output):
                name = self._called[call_id]
                self.messages.append({"role": "tool", "content": output, "tool_call_id": call_id, "name": name})

    def _turn(self) -> dict[str, Any]:
        """The assistant's message that is being added to."""
        if not self.messages or self.messages[-1]["role"] != "assistant":
            self.messages.append({"role": "assistant", "content": ""})
        return self.messages[-1]

    def _instruct(self, text: str) -> None:
        """Templates know the older role only, and many of them one such message, at the beginning."""
        if self._instructed and len(self.messages) == 1:
            self.messages[0]["content"] += f"\n\n{text}"
        else:
            self.messages.append({"role": "system", "content": text})

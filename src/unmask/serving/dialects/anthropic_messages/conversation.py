"""From messages of content blocks to a conversation as chat templates take it."""

from __future__ import annotations

from typing import Any

from unmask.errors import InvalidValueError
from unmask.serving.chat import split_prefill, template_call
from unmask.serving.dialects.anthropic_messages.blocks import (
    Block,
    Message,
    TextBlock,
    Texts,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

_OWNERS = {"thinking": "assistant", "tool_use": "assistant", "tool_result": "user"}
_BETWEEN = "\n\n"  # turns of one speaker that follow each other, which templates know as one


def parse_conversation(system: Texts | None, messages: list[Message]) -> tuple[list[dict[str, Any]], str]:
    """The conversation, and the text with which its answer begins: that of a last turn which is the assistant's.

    Raises ``InvalidValueError`` for blocks that do not belong to their turn's role, or results of calls that nobody
    made, ``UnsupportedValueError`` for a last turn that cannot be gone on with.
    """
    turns = [{"role": "system", "content": text_of(system)}] if system else []
    called: dict[str, str] = {}
    for number, message in enumerate(messages):
        for turn in _parse(message, f"messages[{number}]", called):
            _append(turns, turn)
    return split_prefill(turns)


def text_of(content: Texts | None) -> str:
    """All text of ``content``; its blocks join without anything between them."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(block.text for block in content)


def _parse(message: Message, path: str, called: dict[str, str]) -> list[dict[str, Any]]:
    """The turns that ``message`` stands for: results of calls are turns of their own.

    ``called`` gets the names of called tools by the calls' ids.
    """
    if isinstance(message.content, str):
        return [{"role": message.role, "content": message.content}]
    for number, block in enumerate(message.content):
        owner = _OWNERS.get(block.type, message.role)
        if owner != message.role:
            at = f"{path}.content[{number}]"
            raise InvalidValueError(f"'{at}': '{block.type}' belongs to the role '{owner}' only.", param=at)
    if message.role == "assistant":
        return [_assistant(message.content, called)]
    turns: list[dict[str, Any]] = []
    for number, block in enumerate(message.content):
        if isinstance(block, ToolResultBlock):
            turns.append(_result(block, f"{path}.content[{number}].tool_use_id", called))
        elif isinstance(block, TextBlock):
            if not turns or turns[-1]["role"] != message.role:
                turns.append({"role": message.role, "content": ""})
            turns[-1]["content"] += block.text
    return turns


def _assistant(blocks: list[Block], called: dict[str, str]) -> dict[str, Any]:
    turn: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(block.text for block in blocks if isinstance(block, TextBlock)),
    }
    reasoning = "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    if reasoning:
        turn["reasoning_content"] = reasoning
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    if calls:
        called |= {call.id: call.name for call in calls}
        turn["tool_calls"] = [template_call(call.id, call.name, call.input) for call in calls]
    return turn


def _result(block: ToolResultBlock, path: str, called: dict[str, str]) -> dict[str, Any]:
    if block.tool_use_id not in called:
        raise InvalidValueError(
            f"'{path}' is {block.tool_use_id[:100]!r}, which is no call before it.",
            hint="Send the 'tool_use' block that it answers, too.",
            param=path,
        )
    name = called[block.tool_use_id]
    return {"role": "tool", "tool_call_id": block.tool_use_id, "name": name, "content": text_of(block.content)}


def _append(turns: list[dict[str, Any]], turn: dict[str, Any]) -> None:
    """Add ``turn``; to the one before, if that is the same speaker's."""
    last: dict[str, Any] = turns[-1] if turns else {"role": None}
    if last["role"] != turn["role"] or turn["role"] == "tool":
        turns.append(turn)
        return
    for name, more in turn.items():
        if name == "tool_calls":
            last[name] = [*last.get(name, ()), *more]
        elif name != "role":
            last[name] = _BETWEEN.join(filter(None, [last.get(name), more]))

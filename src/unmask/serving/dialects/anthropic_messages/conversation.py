"""From messages of content blocks to a conversation as chat templates take it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from unmask.answers.chat import split_prefill, template_call
from unmask.errors import InvalidValueError
from unmask.serving.dialects.anthropic_messages.blocks import (
    Block,
    Message,
    TextBlock,
    Texts,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

Turn = dict[str, Any]

_OWNERS = {"thinking": "assistant", "tool_use": "assistant", "tool_result": "user"}
_BETWEEN = "\n\n"  # turns of one speaker that follow each other, which templates know as one


def parse_conversation(system: Texts | None, messages: list[Message]) -> tuple[list[Turn], str]:
    """The conversation, and the text with which its answer begins: that of a last turn which is the assistant's.

    Raises ``InvalidValueError`` for blocks that do not belong to their turn's role, or results of calls that nobody
    made, ``UnsupportedValueError`` for a last turn that cannot be gone on with.
    """
    turns: list[Turn] = [{"role": "system", "content": text_of(system)}] if system else []
    called: dict[str, str] = {}
    for number, message in enumerate(messages):
        turns += _parse(message, f"messages[{number}]", called)
    return split_prefill(_combined(turns))


def text_of(content: Texts | None) -> str:
    """All text of ``content``; its blocks join without anything between them."""
    if content is None or isinstance(content, str):
        return content or ""
    return _joined(content)


def _joined(blocks: Iterable[Block]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


def _parse(message: Message, path: str, called: dict[str, str]) -> list[Turn]:
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
    turns: list[Turn] = []
    for results, run in groupby(enumerate(message.content), key=lambda place: isinstance(place[1], ToolResultBlock)):
        blocks = [(f"{path}.content[{number}].tool_use_id", block) for number, block in run]
        if results:
            turns += [_result(block, at, called) for at, block in blocks if isinstance(block, ToolResultBlock)]
        else:
            turns.append({"role": message.role, "content": _joined(block for _, block in blocks)})
    return turns


def _assistant(blocks: list[Block], called: dict[str, str]) -> Turn:
    turn: Turn = {
        "role": "assistant",
        "content": _joined(blocks),
    }
    reasoning = "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock))
    if reasoning:
        turn["reasoning_content"] = reasoning
    calls = [block for block in blocks if isinstance(block, ToolUseBlock)]
    if calls:
        called |= {call.id: call.name for call in calls}
        turn["tool_calls"] = [template_call(call.id, call.name, call.input) for call in calls]
    return turn


def _result(block: ToolResultBlock, path: str, called: dict[str, str]) -> Turn:
    if block.tool_use_id not in called:
        raise InvalidValueError(
            f"'{path}' is {block.tool_use_id[:100]!r}, which is no call before it.",
            hint="Send the 'tool_use' block that it answers, too.",
            param=path,
        )
    name = called[block.tool_use_id]
    return {"role": "tool", "tool_call_id": block.tool_use_id, "name": name, "content": text_of(block.content)}


def _combined(turns: list[Turn]) -> list[Turn]:
    """``turns`` with those of one speaker that follow each other as one; results of calls stay apart."""
    combined: list[Turn] = []
    for role, run in groupby(turns, key=lambda turn: turn["role"]):
        same = [*run]
        combined += same if role == "tool" else [_as_one(role, same)]
    return combined


def _as_one(role: str, turns: list[Turn]) -> Turn:
    one: Turn = {"role": role, "content": _BETWEEN.join(filter(None, (turn["content"] for turn in turns)))}
    reasoning = _BETWEEN.join(turn["reasoning_content"] for turn in turns if "reasoning_content" in turn)
    calls = [call for turn in turns for call in turn.get("tool_calls", ())]
    return one | ({"reasoning_content": reasoning} if reasoning else {}) | ({"tool_calls": calls} if calls else {})

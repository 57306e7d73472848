"""From ``input`` as it was sent to items as they are kept: each with an id, and each part of its own kind."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from unmask.errors import InvalidValueError
from unmask.serving.dialects.openai_responses import input_wire as wire
from unmask.serving.dialects.openai_responses import items
from unmask.serving.dialects.openai_responses.items import InputText, Item, Message, OutputText


def parse_input(given: wire.Input, previous: Sequence[Item]) -> list[Item]:
    """The items of ``given``, which goes on from ``previous``. Raises ``InvalidValueError`` for what does not fit."""
    if len(previous) + (1 if isinstance(given, str) else len(given)) > wire.MAX_ITEMS:
        raise InvalidValueError(
            f"The conversation has more than {wire.MAX_ITEMS} items.", hint="Begin a new one.", param="input"
        )
    if isinstance(given, str):
        return [Message(id=_new_id("msg"), role="user", content=[InputText(given)])]
    taken = {item.id for item in previous}
    calls = {item.call_id for item in previous if isinstance(item, items.FunctionCall)}
    parsed: list[Item] = []
    for number, item in enumerate(given):
        own_id = None if _sent_id(item) in taken else _sent_id(item)
        new = _parse(item, own_id, f"input[{number}]")
        taken.add(new.id)
        if isinstance(new, items.FunctionCall):
            calls.add(new.call_id)
        elif isinstance(new, items.FunctionCallOutput) and new.call_id not in calls:
            raise InvalidValueError(
                f"'input[{number}].call_id' belongs to no call before it.",
                hint="Send the 'function_call' item too, or name its response in 'previous_response_id'.",
                param=f"input[{number}].call_id",
            )
        parsed.append(new)
    return parsed


def _sent_id(item: wire.InputItem) -> str | None:
    """The id that ``item`` was sent with."""
    return None if isinstance(item, wire.OtherItem) else item.id


def _parse(item: wire.InputItem, own_id: str | None, path: str) -> Item:
    match item:
        case wire.MessageItem():
            return _parse_message(item, own_id or _new_id("msg"), path)
        case wire.CallItem(call_id=call_id, name=name, arguments=arguments):
            return items.FunctionCall(id=own_id or _new_id("fc"), call_id=call_id, name=name, arguments=arguments)
        case wire.CallOutputItem(call_id=call_id):
            output = "".join(_texts(item.output, f"{path}.output", "input_text"))
            return items.FunctionCallOutput(id=own_id or _new_id("fco"), call_id=call_id, output=output)
        case wire.ReasoningItem():
            return items.ReasoningItem(
                id=own_id or _new_id("rs"),
                summary=[items.SummaryText(part.text) for part in item.summary or ()],
                content=[items.ReasoningText(part.text) for part in item.content or ()],
            )
    raise AssertionError(item)  # other items do not pass the schema


def _parse_message(item: wire.MessageItem, own_id: str, path: str) -> Message:
    role = item.role
    content: list[InputText | OutputText]
    if role == "assistant":
        content = [OutputText(text) for text in _texts(item.content, f"{path}.content", "input_text", "output_text")]
    else:
        content = [InputText(text) for text in _texts(item.content, f"{path}.content", "input_text")]
    return Message(id=own_id, role=role, content=content)  # type: ignore[arg-type]  # the schema knows the roles


def _texts(content: wire.Content, path: str, *kinds: str) -> list[str]:
    if isinstance(content, str):
        return [content]
    for number, part in enumerate(content):
        if part.type not in kinds:
            raise InvalidValueError(
                f"'{path}[{number}].type': '{part.type}' is what the assistant says.",
                hint="Send 'input_text'.",
                param=f"{path}[{number}].type",
            )
    return [part.text for part in content]


def _new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(12)}"

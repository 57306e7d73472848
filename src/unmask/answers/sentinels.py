"""What is wrong with a finished answer as far as that can be told without a judge: it warns, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unmask.answers.answer import Answer
from unmask.answers.chat import Chat, Continuation
from unmask.answers.parts import ToolCall
from unmask.answers.schema_fit import breaks
from unmask.answers.symptoms.mask_text import mask_text
from unmask.answers.symptoms.repetition import loops
from unmask.answers.tools import Tool

Warned = Literal[
    "cut_in_reasoning",
    "empty_answer",
    "mask_text",
    "reasoning_no_answer",
    "repetition",
    "schema_violation",
    "stalled_stream",
    "tool_args_invalid_json",
    "tool_name_unknown",
]

_LOOP = 128  # characters: whoever asks for a list of zeros may have one


@dataclass(frozen=True, slots=True)
class Expected:
    """What a request makes one expect of its answers. ``said``: its texts; what they hold may be repeated.

    ``schema``: of the content, None for any. ``tools`` by name are those that may be called.
    """

    said: Sequence[Any] = ()
    schema: Any = None
    tools: Mapping[str, Tool] = field(default_factory=dict)

    @classmethod
    def by(cls, asked: Chat | Continuation) -> Expected:
        """What ``asked`` makes one expect."""
        schema = asked.params.json_schema
        if isinstance(asked, Continuation):
            return cls(asked.texts, schema)
        return cls(asked.messages, schema, {tool.name: tool for tool in asked.offered})


def warnings_of(answer: Answer, expected: Expected) -> list[Warned]:
    """What is wrong with ``answer``, each kind once. What was cut is not blamed for the end that it lacks."""
    cut = answer.finish == "length"
    found: set[Warned] = set()
    if not answer.content and not answer.tool_calls and answer.completion.stopped_by is None:
        found.add("empty_answer" if not answer.reasoning else "cut_in_reasoning" if cut else "reasoning_no_answer")
    mask = mask_text(answer.content)
    if mask and mask not in repr(expected.said):
        found.add("mask_text")
    if loops(answer.content, _LOOP) or loops(answer.reasoning, _LOOP):
        found.add("repetition")
    if not cut and expected.schema is not None and answer.content and not answer.tool_calls:
        found.update(_judge_json(answer.content, expected.schema))
    for call in answer.tool_calls[:-1] if cut else answer.tool_calls:
        found.update(_judge_call(call, expected.tools))
    return sorted(found)


def _judge_json(text: str, schema: Any) -> Iterator[Warned]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield "schema_violation"
        return
    if breaks(value, schema):
        yield "schema_violation"


def _judge_call(call: ToolCall, tools: Mapping[str, Tool]) -> Iterator[Warned]:
    tool = tools.get(call.name)
    if tool is None:
        yield "tool_name_unknown"
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        yield "tool_args_invalid_json"
        return
    if not isinstance(arguments, dict):
        yield "tool_args_invalid_json"
    elif tool is not None and tool.parameters is not None and breaks(arguments, tool.parameters):
        yield "schema_violation"

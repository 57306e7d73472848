"""Answers that may call tools whose calls must fit their schemas, as one expression of the whole text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from unmask.answers.syntax import AnswerSyntax, ToolSyntax
from unmask.answers.tools import Tool, ToolChoice, forced_schema
from unmask.constraints.json_schema import schema_pattern
from unmask.constraints.json_text import json_literal
from unmask.constraints.literal import escape
from unmask.errors import UnsupportedValueError


def auto_pattern(tools: Sequence[Tool], syntax: AnswerSyntax, special_tokens: Collection[str]) -> str | None:
    """What an answer looks like in which calls of strict tools fit their schemas; None if no tool is strict.

    It is any text that begins no call, or such texts with calls between them. Calls are those of ``tools`` alone. A
    constrained text holds no special tokens, so a model whose markers are such tokens cannot be held to this: then it
    raises ``UnsupportedValueError``, as it does for a schema that cannot be enforced.
    """
    strict = [tool for tool in tools if tool.strict]
    if not strict:
        return None
    markers = syntax.tools
    if markers is None or markers.format != "json" or {markers.open, markers.close} & set(special_tokens):
        raise UnsupportedValueError(
            "This model marks its calls with special tokens, so that 'strict' tools cannot be held to their schemas.",
            hint="Leave 'strict' out, or demand a call with 'tool_choice'.",
            param="tools",
        )
    # One by one they would repeat what their schemas share; together they are one expression of alternatives.
    calls = [schema_pattern(forced_schema(strict, ToolChoice("required")))]
    calls += [_loose(tool, markers) for tool in tools if not tool.strict]
    text = text_without(markers.open)
    return rf"{text}(?:{escape(markers.open)}\n?(?:{'|'.join(calls)})\n?{escape(markers.close)}{text})*"


def _loose(tool: Tool, markers: ToolSyntax) -> str:
    """A call with any arguments."""
    return rf'\{{"name": ?{json_literal(tool.name)}, ?"arguments": ?\{{{text_without(markers.close)}'


def text_without(marker: str) -> str:
    """Any text that does not hold ``marker``, of ASCII characters, the first of which occurs in it once.

    After n characters of the marker, another character than its next one leads out of it, or, if it is the first one,
    to its beginning again. Characters beyond ASCII lead out from everywhere, by one way: each of its own would make
    the automaton several times as large.
    """
    first, rest = marker[0], marker[1:]
    assert first not in rest, "it would have to be looked for from within itself"
    again = out = partly = ""
    for place, character in reversed(list(enumerate(rest, 1))):
        other, last = _ascii_but(first, character), place == len(rest)
        again = first if last else f"(?:{first}|{escape(character)}{again})"
        out = other if last else f"(?:{other}|{escape(character)}{out})"
        partly = "" if last else f"(?:{escape(character)}{partly})?"
    begun = f"{first}{again}*"
    return rf"(?:{_ascii_but(first)}|{begun}{out}|(?:{begun}{partly})?[^\x00-\x7f])*(?:{begun}{partly})?"


def _ascii_but(*characters: str) -> str:
    codes = sorted(map(ord, characters))
    ends = zip([0, *(code + 1 for code in codes)], [*(code - 1 for code in codes), 0x7F], strict=True)
    ranges = [rf"\x{low:02x}-\x{high:02x}" for low, high in ends if low <= high]
    return f"[{''.join(ranges)}]"

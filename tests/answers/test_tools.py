"""Forced calls: exactly those that fit some tool's schema; what is wrong with tools is named."""

from __future__ import annotations

import json
import random
import re

import jsonschema
import pytest

from tests.answers.reading import build, read
from tests.constraints.test_json_schema import walks
from unmask.answers.tools import MAX_TOOLS, Tool, ToolChoice, check_tools, forced_schema
from unmask.constraints.json_schema import schema_pattern
from unmask.errors import InvalidValueError, UnsupportedValueError

REQUIRED = ToolChoice("required")
CITY = {
    "$defs": {"City": {"enum": ["Oslo", "Rome"]}},
    "properties": {"city": {"$ref": "#/$defs/City"}},
    "required": ["city"],
}
TREE = {"type": "object", "properties": {"left": {"$ref": "#"}}}
WEATHER = Tool("weather", "What it is like outside", {"type": "object", **CITY})
NOW = Tool("now")
ROLL = Tool("roll-2", parameters={"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2}}})
ODD = Tool("odd", parameters={
    "type": "object",
    "properties": {
        "$ref": {"type": "string"},
        "default": {"$ref": "#/definitions/x"},
        "e": {"enum": [{"$ref": "#/z"}]},
    },
    "definitions": {"x": {"type": "boolean"}},
    "default": {"$ref": "#/nowhere"},
})  # fmt: skip


def pattern_of(tools, choice):
    return re.compile(schema_pattern(forced_schema(tools, choice)))


def test_any_of_the_tools():
    pattern = pattern_of([WEATHER, NOW], REQUIRED)
    for good in ('{"name": "weather", "arguments": {"city": "Oslo"}}', '{"name":"now","arguments":{}}'):
        assert pattern.fullmatch(good)
    for bad in (
        '{"name": "weather", "arguments": {}}',
        '{"name": "now", "arguments": {"city": "Oslo"}}',
        '{"name": "roll-2", "arguments": {}}',
        '{"arguments": {}, "name": "now"}',
        "{}",
    ):
        assert not pattern.fullmatch(bad)


def test_the_one_that_is_named():
    pattern = pattern_of([WEATHER, NOW], ToolChoice("named", "now"))
    assert pattern.fullmatch('{"name": "now", "arguments": {}}')
    assert not pattern.fullmatch('{"name": "weather", "arguments": {"city": "Oslo"}}')


@pytest.mark.parametrize("tools", [[WEATHER, NOW, ROLL, ODD], [ODD], [NOW], [WEATHER, ROLL]])
def test_every_forced_answer_is_read_as_the_call_that_it_is(tools):
    schemas = {tool.name: tool.parameters or {"maxProperties": 0} for tool in tools}
    for text in walks(schema_pattern(forced_schema(tools, REQUIRED)), 20, random.Random(1)):
        content, reasoning, [(name, arguments)] = build(read(text, forced=True))
        assert content == reasoning == ""
        assert json.loads(text) == {"name": name, "arguments": json.loads(arguments)}
        jsonschema.validate(json.loads(arguments), schemas[name])


def test_recursion_is_refused_by_the_tools_name():
    with pytest.raises(UnsupportedValueError, match=re.escape("#/$defs/tree")):
        schema_pattern(forced_schema([Tool("tree", parameters=TREE), NOW], REQUIRED))


WRONG = [
    ([Tool("")], ToolChoice(), "tools[0].name"),
    ([NOW, Tool("a b")], ToolChoice(), "tools[1].name"),
    ([NOW, Tool("x" * 65)], ToolChoice(), "tools[1].name"),
    ([NOW, NOW], ToolChoice(), "tools[1].name"),
    ([Tool("a", parameters={"type": "string"})], ToolChoice(), "tools[0].parameters"),
    ([Tool("a", parameters={"type": "object", "default": float("inf")})], ToolChoice(), "tools[0].parameters"),
    ([Tool(f"t{n}") for n in range(MAX_TOOLS + 1)], ToolChoice(), "tools"),
    ([Tool(f"t{n}", "words" * 10000) for n in range(6)], ToolChoice(), "tools"),
    ([], REQUIRED, "tool_choice"),
    ([NOW], ToolChoice("named", "then"), "tool_choice"),
    ([NOW], ToolChoice("named"), "tool_choice"),
]


@pytest.mark.parametrize(("tools", "choice", "param"), WRONG)
def test_what_is_wrong_is_named(tools, choice, param):
    with pytest.raises(InvalidValueError) as error:
        check_tools(tools, choice)
    assert error.value.param == param


def test_what_is_right_passes():
    for choice in (ToolChoice(), ToolChoice("none"), REQUIRED, ToolChoice("named", "now")):
        check_tools([WEATHER, NOW, ROLL, ODD], choice)
    check_tools([], ToolChoice())

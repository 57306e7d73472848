"""Tools whose calls must fit their schemas, over HTTP: free text stays what it was, a forced call always fits."""

from __future__ import annotations

import json

import jsonschema
import openai
import pytest

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]
SCHEMA = {
    "$defs": {"Side": {"enum": ["left", "right"]}},
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 20}, "side": {"$ref": "#/$defs/Side"}},
    "required": ["n", "side"],
}
TREE = {"type": "object", "properties": {"left": {"$ref": "#"}}}


def tool(name="turn", parameters=SCHEMA, strict=True):
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": strict}}


def ask(client, **fields):
    return client.chat.completions.create(model="unmask-tiny", messages=QUESTION, **fields)


@pytest.mark.parametrize("length", [{"min_tokens": 12, "max_tokens": 40}, {"min_tokens": 5, "max_tokens": 5}])
def test_what_begins_no_call_is_as_it_would_be(client, length):
    limits = {"max_tokens": length["max_tokens"], "extra_body": {"min_tokens": length["min_tokens"]}}
    free = ask(client, tools=[tool(strict=False), tool("other", strict=False)], **limits)
    held = ask(client, tools=[tool(), tool("other", strict=False)], **limits)
    assert held.choices[0].message.content == free.choices[0].message.content != ""
    assert held.choices[0].finish_reason == free.choices[0].finish_reason
    assert held.usage.completion_tokens == free.usage.completion_tokens
    assert held.choices[0].finish_reason == ("length" if length["min_tokens"] == 5 else "stop")
    assert held.unmask["applied"]["constraint"] == "regex"


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "turn"}}])
@pytest.mark.parametrize("seed", [1, 2])
def test_forced_calls_fit(client, choice, seed):
    answer = ask(client, tools=[tool()], tool_choice=choice, temperature=1.5, seed=seed, max_tokens=80)
    [call] = answer.choices[0].message.tool_calls
    assert call.function.name == "turn"
    jsonschema.validate(json.loads(call.function.arguments), SCHEMA)
    assert not answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [tool(parameters=TREE)]}, "tools"),
        ({"tools": [tool(parameters=TREE, strict=False)], "tool_choice": "required"}, "tools"),
        ({"tools": [tool()], "response_format": {"type": "json_object"}}, "tools"),
        ({"tools": [tool()], "stop": "x"}, "stop"),
        ({"tools": [tool()], "tool_choice": "required", "max_tokens": 4}, "tools"),
    ],
)
def test_what_cannot_be_held_to_is_named(client, fields, param):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, **fields)
    assert error.value.param == param
    assert "'regex'" not in error.value.message
    assert "'json_schema'" not in error.value.message


def test_a_schema_that_cannot_be_enforced_is_no_obstacle_where_it_need_not_be(client):
    assert ask(client, tools=[tool(parameters=TREE, strict=False)]).choices[0].finish_reason == "stop"

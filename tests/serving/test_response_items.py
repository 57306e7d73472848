"""From items to the conversation that a chat template gets."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter

from unmask.errors import InvalidValueError
from unmask.serving.dialects.openai_responses.conversation import chat_messages
from unmask.serving.dialects.openai_responses.input import parse_input
from unmask.serving.dialects.openai_responses.input_wire import Input

INPUT = TypeAdapter(Input)
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x": 1}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "2"}]}
THOUGHT = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}


def said(role: str, text: str) -> dict:
    return {"type": "message", "role": role, "content": text}


def messages(*items: dict, instructions: str | None = None) -> list[dict]:
    return chat_messages(instructions, [], parse_input(INPUT.validate_python(list(items)), []))


def test_a_turn_of_the_assistant_is_one_message():
    turn = (THOUGHT, said("assistant", "I see. "), CALL, CALL | {"call_id": "c2"}, said("assistant", "Wait."))
    assert messages(said("user", "go"), *turn, RESULT, said("assistant", "2")) == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I see. Wait.",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
                for call_id in ("c1", "c2")
            ],
        },
        {"role": "tool", "content": "2", "tool_call_id": "c1", "name": "f"},
        {"role": "assistant", "content": "2"},
    ]


def test_instructions_and_a_first_system_message_are_one():
    told = messages(said("developer", "b"), said("user", "c"), said("system", "d"), instructions="a")
    assert [(message["role"], message["content"]) for message in told] == [
        ("system", "a\n\nb"),
        ("user", "c"),
        ("system", "d"),
    ]
    assert messages(said("system", "b"), said("user", "c"))[0] == {"role": "system", "content": "b"}


def test_a_summary_stands_in_for_reasoning_that_is_not_there():
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "in short"}]}
    assert messages(summary, said("assistant", "x"))[0]["reasoning_content"] == "in short"


def test_ids_are_kept_if_they_are_new():
    given = [[said("user", "hm") | {"id": name} for name in names] for names in (("one", ""), ("one", "x"))]
    first = parse_input(INPUT.validate_python(given[0]), [])
    second = parse_input(INPUT.validate_python(given[1]), first)
    assert first[0].id == "one"
    assert second[1].id == "x"
    assert len({item.id for item in [*first, *second]}) == 4


def test_a_result_may_belong_to_a_call_of_an_earlier_response():
    earlier = parse_input(INPUT.validate_python([said("user", "go"), CALL]), [])
    new = parse_input(INPUT.validate_python([RESULT]), earlier)
    assert chat_messages(None, earlier, new)[-1]["name"] == "f"
    with pytest.raises(InvalidValueError) as refusal:
        parse_input(INPUT.validate_python([RESULT, CALL]), [])
    assert refusal.value.param == "input[0].call_id"


def test_conversations_are_bounded():
    earlier = parse_input(INPUT.validate_python([said("user", "go")] * 4096), [])
    with pytest.raises(InvalidValueError, match="4096"):
        parse_input(INPUT.validate_python([said("user", "on")]), earlier)


def test_line_breaks_in_arguments_are_taken_as_models_write_them():
    told = messages(CALL | {"arguments": '{"x": "a\n\tb"}'})
    assert told[0]["tool_calls"][0]["function"]["arguments"] == {"x": "a\n\tb"}
    for arguments in ('{"x": NaN}', r'{"x": "\ud800"}', '{"x": "a\n', "[1]", "{" * 10**5):
        with pytest.raises(InvalidValueError, match="is no JSON object"):
            messages(CALL | {"arguments": arguments})


def test_a_text_is_an_item_like_any_other():
    previous = parse_input(INPUT.validate_python([said("user", "a")] * 4095), [])
    previous += parse_input("b", previous)
    with pytest.raises(InvalidValueError, match="more than 4096 items"):
        parse_input("c", previous)

"""What answers are blamed for, and what they are not."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask.answers.answer import Answer, LaneCompletion
from unmask.answers.chat import Chat, Continuation
from unmask.answers.parts import ToolCall
from unmask.answers.sentinels import Expected, warnings_of
from unmask.answers.tools import Tool, ToolChoice
from unmask.events import RequestStats
from unmask.params import GenerationParams

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": False}
TOOLS = {"f": Tool("f", parameters=POINT), "g": Tool("g")}
STORY = "Once there was a sea, and by the sea stood a house, and nobody knew who had built it."


def answer(
    content="", reasoning="", *calls: tuple[str, str], finish="stop", stopped_by=None, broken_off=False
) -> Answer:
    done = LaneCompletion(
        finish_reason=finish, prompt_tokens=3, completion_tokens=9, stats=RequestStats(), lane="llama.cpp", applied={},
        stopped_by=stopped_by,
    )  # fmt: skip
    return Answer(content, reasoning, [ToolCall(*call) for call in calls], 0, None, done, [], broken_off=broken_off)


@pytest.mark.parametrize(("given_answer", "expected"), [
    (answer(STORY), []),
    (answer(""), ["empty_answer"]),
    (answer("", stopped_by="\n"), []),
    (answer("", "So."), ["reasoning_no_answer"]),
    (answer("", "So.", finish="length"), ["cut_in_reasoning"]),
    (answer("", "So.", finish="timeout"), ["cut_in_reasoning"]),
    (answer("", "So.", ("g", "{}")), []),
    (answer("Well, the <|mask|> is blue."), ["mask_text"]),
    (answer(STORY + " no" * 60), ["repetition"]),
    (answer("Yes.", "I see. " * 40), ["repetition"]),
    (answer("[" + "0, " * 40 + "0]"), []),
    (answer("", "", ("f", '{"x": 1}')), []),
    (answer("", "", ("f", '{"x": "1"}')), ["schema_violation"]),
    (answer("", "", ("f", "{}")), ["schema_violation"]),
    (answer("", "", ("f", '{"x": 1')), ["tool_args_invalid_json"]),
    (answer("", "", ("f", "[]")), ["tool_args_invalid_json"]),
    (answer("", "", ("g", "")), []),
    (answer("", "", ("h", "{}"), ("h", "{")), ["tool_args_invalid_json", "tool_name_unknown"]),
    (answer("", "", ("h", "{}"), ("f", '{"x'), finish="length", broken_off=True), ["tool_name_unknown"]),
    (answer("", "", ("f", '{"x'), broken_off=True), ["tool_args_invalid_json"]),
])  # fmt: skip
def test_what_is_wrong(given_answer, expected):
    assert warnings_of(given_answer, Expected(tools=TOOLS)) == expected


@pytest.mark.parametrize(("content", "finish", "wrong"), [
    ('{"x": 1}', "stop", False), ('{"y": 1}', "stop", True), ("x is 1", "stop", True), ('{"x": ', "length", False),
])  # fmt: skip
def test_a_schema_that_was_asked_for(content, finish, wrong):
    assert warnings_of(answer(content, finish=finish), Expected(schema=POINT)) == ["schema_violation"] * wrong


def test_what_the_request_says_itself_may_be_repeated():
    chat = Chat(messages=[{"role": "user", "content": "What does [MASK] mean?"}], params=GenerationParams())
    text = Continuation(params=GenerationParams(json_schema=POINT), texts=["[MASK] is"])
    told = answer("[MASK] is a gap.")
    assert warnings_of(told, Expected.by(chat)) == []
    assert warnings_of(told, Expected.by(text)) == ["schema_violation"]
    assert warnings_of(told, Expected()) == ["mask_text"]


def test_tools_that_may_not_be_called_are_none():
    params = GenerationParams()
    chat = Chat(messages=[], params=params, tools=[TOOLS["g"]], choice=ToolChoice("none"))
    assert warnings_of(answer("", "", ("g", "{}")), Expected.by(chat)) == ["tool_name_unknown"]


@given(st.text(), st.text(), st.lists(st.tuples(st.sampled_from("fgh"), st.text()), max_size=3), st.booleans())
def test_any_answer_is_judged(content, reasoning, calls, cut):
    told = answer(content, reasoning, *calls, finish="length" if cut else "stop")
    assert warnings_of(told, Expected(schema=POINT, tools=TOOLS)) is not None


@pytest.mark.parametrize("text", [
    "no " * 400_000, string.ascii_letters * 20_000, "[" * 10**6, '{"a":' * 200_000, "9" * 10**6, "aab" * 300_000,
])  # fmt: skip
def test_long_answers_take_no_time(text):
    begun = time.perf_counter()
    warnings_of(answer(text, text, ("f", text), ("f", text)), Expected(schema=POINT, tools=TOOLS))
    assert time.perf_counter() - begun < 1

"""Whatever the chunks, the lines of an answer add up to the whole one, and are such that clients survive them."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from ollama import ChatResponse, GenerateResponse

from tests.serving.answers import cut_answers, deltas
from tests.serving.test_streams import TOKENIZER
from tests.serving.wire import sent
from unmask.engine.text import CellDecoder
from unmask.serving.dialects.ollama.encode import Head, encode
from unmask.serving.dialects.ollama.lines import chat_line, generate_line
from unmask.serving.dialects.ollama.stream import LineStream
from unmask.serving.errors import Problem

CELLS = CellDecoder(TOKENIZER)
HEAD = Head("id", lambda *parts, **more: chat_line(*parts, model="m", created_at="2026-01-01T00:00:00Z", **more))
FINISHES = st.sampled_from([("stop", None), ("stop", "zzz"), ("length", None), ("timeout", None)])
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def decode(body: bytes) -> list[dict]:
    *lines, end = body.decode().split("\n")
    assert end == ""
    return [json.loads(line) for line in lines]


def streamed(groups, **options) -> list[dict]:
    return decode(sent(LineStream(HEAD, CELLS), deltas(groups, **options)))


def whole(groups, **options) -> dict:
    (*_, last) = deltas(groups, **options)
    return json.loads(msgspec.json.encode(encode(HEAD, last.answer, CELLS)))


def put_together(lines: list[dict]) -> dict:
    """What clients make of the lines, each checked against the official client's types."""
    last = lines[-1]
    message = {"role": "assistant", "content": "", "thinking": "", "tool_calls": []}
    for line in lines:
        ChatResponse(**line)
        assert line["done"] == (line is last)
        message["content"] += line["message"]["content"]
        message["thinking"] += line["message"].get("thinking", "")
        message["tool_calls"] += line["message"].get("tool_calls", [])
    return last | {"message": {name: part for name, part in message.items() if part or name == "content"}}


@given(cut_answers(), FINISHES, st.booleans())
def test_lines_add_up_to_the_whole_answer(answer, ending, frames):
    text, groups = answer
    finish, stopped_by = ending
    lines = streamed(groups, finish=finish, stopped_by=stopped_by, frames=frames)
    shown = [line for line in lines if "canvas" in line.get("unmask", {})]
    assert [(line["completed"], line["total"]) for line in shown] == [(0, 4)] * (len(groups) if frames else 0)
    for line in lines[:-1]:
        message = line["message"]
        assert line in shown or message["content"] or message.get("thinking") or message.get("tool_calls")
    accumulated = put_together(lines)
    assert accumulated == put_together([whole(groups, finish=finish, stopped_by=stopped_by)])
    other = whole([[*text]], finish=finish, stopped_by=stopped_by)
    assert accumulated["message"] == other["message"]
    assert accumulated["done_reason"] == other["done_reason"] == ("stop" if finish == "stop" else "length")


def test_calls_are_told_whole():
    text = f"Well.{CALL}{CALL}"
    lines = streamed([[one] for one in text])
    calls = [call for line in lines for call in line["message"].get("tool_calls", [])]
    assert [(call["function"]["index"], call["function"]["arguments"]) for call in calls] == [
        (0, {"a": 1}),
        (1, {"a": 1}),
    ]
    assert len({call["id"] for call in calls}) == 2
    assert lines[-1]["done_reason"] == "stop"


def test_a_call_that_was_cut_is_not_told():
    text = f'{CALL}<tool_call>{{"name": "f", "arguments": {{"a": [1, 2], "b": "cut of'
    for finish, stopped_by in (("length", None), ("timeout", None), ("stop", "f"), ("stop", None)):
        message = whole([[text]], finish=finish, stopped_by=stopped_by)["message"]
        assert [call["function"]["arguments"] for call in message["tool_calls"]] == [{"a": 1}]


def test_arguments_that_are_no_json_are_told_as_such():
    text = '<tool_call>{"name": "f", "arguments": {"a": x}}</tool_call>'
    (call,) = whole([[text]])["message"]["tool_calls"]
    assert call["function"]["arguments"] == {"INVALID_JSON": '{"a": x}'}


def test_the_cost_is_told_in_integers():
    line = whole([["<think>", "hm", "</think>", "yes"]])
    told = {name: value for name, value in line.items() if name.endswith(("_count", "_duration"))}
    assert told == {
        "total_duration": 1_500_000_000,
        "load_duration": 250_000_000,
        "prompt_eval_count": 3,
        "prompt_eval_cached_count": 2,
        "prompt_eval_duration": 0,
        "eval_count": 4,
        "eval_duration": 1_250_000_000,
    }
    assert all(type(value) is int for value in told.values())


def test_lines_of_generate_have_a_response():
    head = Head("id", lambda *parts, **more: generate_line(*parts, model="m", created_at="t", **more))
    stream = LineStream(head, CELLS)
    lines = decode(
        b"".join(line for delta in deltas([["<think>", "hm"], ["</think>yes"]]) for line in stream.step(0, delta))
    )
    assert [(line["response"], line.get("thinking"), line["done"]) for line in lines] == [
        ("", "hm", False),
        ("yes", None, False),
        ("", None, True),
    ]
    assert [GenerateResponse(**line).done for line in lines] == [False, False, True]


def test_an_error_is_a_line_of_its_own():
    (line,) = decode(LineStream(HEAD, CELLS).fail(Problem(503, "queue_timeout", "Too late.")))
    assert line == {"error": "Too late.", "code": "queue_timeout", "param": None}
    assert LineStream.keep_alive is None

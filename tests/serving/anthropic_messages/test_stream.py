"""Whatever the chunks, the events of a message add up to the whole one, and are such that clients survive them."""

from __future__ import annotations

import json

import msgspec
import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.serving.answers import cut_answers, deltas
from tests.serving.test_streams import TOKENIZER
from tests.serving.wire import sent
from unmask.engine.text import CellDecoder
from unmask.serving.call_input import input_text
from unmask.serving.dialects.anthropic_messages.encode import Head, encode
from unmask.serving.dialects.anthropic_messages.stream import MessageStream
from unmask.serving.errors import Problem

HEAD = Head("msg_1", "unmask-tiny")
EVENT = TypeAdapter(RawMessageStreamEvent)
FINISHES = st.sampled_from([("stop", None), ("stop", "zzz"), ("length", None), ("timeout", None)])


def decode(body: bytes) -> list[dict]:
    """The payloads of an SSE body, each of which must be named after its type."""
    *events, end = body.decode().split("\n\n")
    assert end == ""
    payloads = []
    for event in events:
        first, second = event.split("\n")
        payload = json.loads(second.removeprefix("data: "))
        assert first == f"event: {payload['type']}"
        payloads.append(payload)
    return payloads


def streamed(groups, *, eager=(), **options) -> list[dict]:
    return decode(sent(MessageStream(HEAD, CellDecoder(TOKENIZER), 3, eager), deltas(groups, **options)))


def whole(groups, **options) -> dict:
    (*_, last) = deltas(groups, **options)
    return json.loads(msgspec.json.encode(encode(HEAD, last.answer)))


def put_together(payloads: list[dict]) -> dict:
    """What the official client makes of the events, checked against its types."""
    snapshot = None
    buffers: dict[int, bytes] = {}
    for payload in payloads:
        if payload["type"] == "dllm_canvas":
            continue
        event = EVENT.validate_python(payload)
        snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    message = snapshot.to_dict()
    assert message.pop("stop_details") is None
    return message


def check_order(payloads: list[dict]) -> None:
    """One message; blocks with indices 0, 1, ..., one open at a time; what belongs to it in between."""
    kinds = [payload["type"] for payload in payloads if payload["type"] != "dllm_canvas"]
    assert (kinds[0], kinds[-2], kinds[-1]) == ("message_start", "message_delta", "message_stop")
    started, open_block, deltas_of = 0, None, []
    for payload in payloads[1:-2]:
        match payload["type"]:
            case "content_block_start":
                assert open_block is None
                assert payload["index"] == started
                open_block, deltas_of, started = payload["content_block"]["type"], [], started + 1
            case "content_block_delta":
                assert payload["index"] == started - 1
                assert all(payload["delta"].values())
                deltas_of.append(payload["delta"]["type"])
            case "content_block_stop":
                assert payload["index"] == started - 1
                allowed = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
                if open_block == "thinking":
                    assert deltas_of.pop() == "signature_delta"
                assert set(deltas_of) <= {allowed[open_block]}
                assert deltas_of or open_block == "tool_use"
                open_block = None
            case other:
                assert other == "dllm_canvas"
    assert open_block is None


@given(cut_answers(), FINISHES, st.booleans())
def test_events_add_up_to_the_whole_message(answer, ending, frames):
    text, groups = answer
    finish, stopped_by = ending
    payloads = streamed(groups, finish=finish, stopped_by=stopped_by, frames=frames)
    check_order(payloads)
    assert sum(payload["type"] == "dllm_canvas" for payload in payloads) == (len(groups) if frames else 0)
    message = whole([[*text]], finish=finish, stopped_by=stopped_by)
    report = payloads[-2]["unmask"]
    assert report["applied"] == message.pop("unmask")["applied"]
    accumulated = put_together(payloads)
    for both in (accumulated, message):
        del both["usage"]["output_tokens"]  # a token is a piece here, and the pieces differ
        del both["usage"]["output_tokens_details"]
    assert accumulated == message


@given(cut_answers(), FINISHES)
def test_the_whole_is_the_same_for_all_chunks(answer, ending):
    _, groups = answer
    finish, stopped_by = ending
    joined = [[piece for group in groups for piece in group]]
    message = whole(joined, finish=finish, stopped_by=stopped_by)
    assert put_together(streamed(groups, finish=finish, stopped_by=stopped_by))["usage"] == message["usage"]


@given(cut_answers(), FINISHES)
def test_eager_input_adds_up_too_where_the_model_writes_json(answer, ending):
    text, groups = answer
    finish, stopped_by = ending
    (*_, last) = deltas([[text]], finish=finish)
    assume(all(input_text(call.arguments) == call.arguments for call in last.answer.tool_calls))
    payloads = streamed(groups, eager=("f", "g", "h"), finish=finish, stopped_by=stopped_by)
    check_order(payloads)
    assert put_together(payloads)["content"] == whole([[text]], finish=finish, stopped_by=stopped_by)["content"]


def test_reasons_for_the_end():
    call = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    reasons = {
        ("x", "stop", None): ("end_turn", None),
        ("x", "length", None): ("max_tokens", None),
        ("x", "timeout", None): ("max_tokens", None),
        ("x", "stop", "y"): ("stop_sequence", "y"),
        (call, "stop", None): ("tool_use", None),
        (call, "length", None): ("max_tokens", None),
        (call, "stop", "y"): ("stop_sequence", "y"),
    }
    for (text, finish, stopped_by), told in reasons.items():
        message = whole([[text]], finish=finish, stopped_by=stopped_by)
        assert (message["stop_reason"], message["stop_sequence"]) == told


def test_a_call_that_breaks_off_has_the_input_that_was_complete():
    text = '<tool_call>{"name": "f", "arguments": {"a": [1, 2], "b": "cut of'
    (block,) = whole([[text]], finish="length")["content"]
    assert block["input"] == {"a": [1, 2]}
    for eager in ((), ("f",)):
        assert put_together(streamed([[*text]], finish="length", eager=eager))["content"] == [block]


def test_input_of_eager_tools_comes_as_it_is_written():
    text = '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    fragments = {
        eager: [
            payload["delta"]["partial_json"]
            for payload in streamed([[one] for one in text], eager=eager)
            if payload["type"] == "content_block_delta"
        ]
        for eager in ((), ("f",))
    }
    assert fragments == {(): ['{"a": 1}'], ("f",): [*'{"a": 1}']}


def test_input_that_is_no_json_object_is_told_as_such():
    assert input_text("{'a': 1}") == '{"INVALID_JSON": "{\'a\': 1}"}'
    assert input_text("[1]") == '{"INVALID_JSON": "[1]"}'
    assert input_text('{"a": "x') == '{"a": "x'
    assert input_text('{"a": "é\n"}') == '{"a": "é\\n"}'
    assert input_text("") == ""


@pytest.mark.parametrize(
    "value", [r'"\ud800"', "NaN", "-Infinity", "[" * 300 + "]" * 300, "9" * 5000, "\n" * 3 + r'"\ud800"']
)
def test_input_that_no_client_can_read_is_told_whole_as_it_is_streamed(value):
    arguments = f'{{"a": {value}}}'
    text = f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
    message = whole([[text]])
    assert message["content"][0]["input"] == {"INVALID_JSON": arguments}
    assert put_together(streamed([[text]]))["content"] == message["content"]


def test_usage_tells_reasoning_and_counts_the_whole_prompt():
    """Cached or not: here 2 of its 3 tokens were."""
    assert whole([["<think>", "hm", "</think>", "yes"]])["usage"] == {
        "input_tokens": 3,
        "output_tokens": 4,
        "output_tokens_details": {"thinking_tokens": 2},
    }


def test_an_error_is_an_event_of_its_own_and_nothing_follows():
    stream = MessageStream(HEAD, CellDecoder(TOKENIZER), 3)
    stream.start()
    stream.step(0, deltas([["some"], [" text"]])[0])
    (payload,) = decode(stream.fail(Problem(503, "queue_timeout", "Too late.")))
    assert payload["error"] == {
        "type": "overloaded_error",
        "message": "Too late.",
        "code": "queue_timeout",
        "param": None,
    }

"""Streamed responses: the same output for any cut of the engine's events, whole ones too, by OpenAI's own schema."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.vendor_schemas import check_event
from tests.serving.parts import TOKENIZER, cuts, deltas
from tests.serving.responses import assembled, response_events, texts_of
from tests.serving.wire import sent
from unmask.engine.text import CellDecoder
from unmask.errors import EngineFaultError, QueueFullError
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_responses.draft import Draft
from unmask.serving.dialects.openai_responses.response import begin
from unmask.serving.dialects.openai_responses.stream import ResponseStream
from unmask.serving.dialects.openai_responses.wire import ResponseRequest
from unmask.serving.errors import Problem

CELLS = CellDecoder(TOKENIZER)
BODY = ResponseRequest(input="hello", metadata={"a": "b"})
stops = st.sampled_from([(), ("wo",), ("</",), ("\n",)])
finishes = st.sampled_from(["stop", "length", "timeout"])

TALK = (
    "<think>why not</think>So <tool_call>\n"
    '{"name": "f", "arguments": {"x": 1}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call> done'
)


def draft() -> Draft:
    return Draft(begin(Head("resp_1", 1, "unmask-tiny"), BODY), [], CELLS)


def streamed(ids, borders, **options) -> list[dict]:
    return response_events(sent(ResponseStream(draft(), CELLS), deltas(ids, borders, **options)))


def whole(ids, borders, **options) -> dict:
    written = draft()
    for delta in deltas(ids, borders, **options):
        written.write(delta)
    return msgspec.to_builtins(written.response)


def timeless(response: dict) -> dict:
    """Without what the number of events has a part in."""
    return response | {"unmask": None}


@given(cuts(), stops, finishes, st.booleans(), st.booleans())
def test_output_does_not_depend_on_cuts(cut, stop, finish, frames, logprobs):
    ids, borders = cut
    options = {"stop": stop, "finish": finish, "logprobs": logprobs}
    reference = whole(ids, [], **options)
    events = streamed(ids, borders, frames=frames, **options)
    final = events[-1]["response"]
    assert timeless(final) == timeless(reference)
    assert timeless(whole(ids, borders, **options)) == timeless(reference)
    assert assembled(events) == final["output"]


@given(cuts(), finishes, st.booleans())
def test_output_is_the_answer(cut, finish, logprobs):
    ids, borders = cut
    answer = deltas(ids, borders, finish=finish, logprobs=logprobs)[-1].answer
    response = whole(ids, borders, finish=finish, logprobs=logprobs)
    output = response["output"]
    assert "".join(texts_of(output, "message")) == answer.content
    assert "".join(texts_of(output, "reasoning")) == answer.reasoning
    calls = [item for item in output if item["type"] == "function_call"]
    assert [(call["name"], call["arguments"]) for call in calls] == [(c.name, c.arguments) for c in answer.tool_calls]
    assert len({item["id"] for item in output} | {call["call_id"] for call in calls}) == len(output) + len(calls)
    assert {item["status"] for item in output[:-1]} <= {"completed"}
    cut_short = finish != "stop"
    assert output[-1]["status"] == response["status"] == ("incomplete" if cut_short else "completed")
    assert response["incomplete_details"] == ({"reason": "max_output_tokens"} if cut_short else None)
    assert response["usage"]["output_tokens"] == answer.completion.completion_tokens
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == answer.reasoning_tokens


@given(cuts())
def test_log_probabilities_stay_with_their_text(cut):
    """What a message shows is what its tokens say, but for white space that is layout and parts of markers."""
    ids, borders = cut
    output = whole(ids, borders, logprobs=True)["output"]
    shown = [
        entry["logprob"] for item in output if item["type"] == "message" for entry in item["content"][0]["logprobs"]
    ]
    assert shown == sorted(shown, reverse=True), "in the order of tokens"
    answer = deltas(ids, borders, logprobs=True)[-1].answer
    told = [entry.logprob for entry in answer.logprobs]
    assert [number for number in told if number in shown] == shown


@settings(max_examples=15, deadline=None)
@given(cut=cuts(), finish=finishes, logprobs=st.booleans())
def test_every_event_is_in_the_schema(cut, finish, logprobs):
    for event in streamed(*cut, finish=finish, logprobs=logprobs):
        check_event(event)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_items_come_in_the_order_of_the_answer(size):
    ids = TOKENIZER.encode_text(TALK)
    events = streamed(ids, list(range(size, len(ids), size)), logprobs=True)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call", "message"]
    assert texts_of(output, "reasoning") == ["why not"]
    assert [text.strip() for text in texts_of(output, "message")] == ["So", "done"]
    for item, own, other in ((output[1], "So", "done"), (output[4], "done", "So")):
        tokens = "".join(entry["token"] for entry in item["content"][0]["logprobs"])
        assert own in tokens
        assert other not in tokens
    for event in events:
        check_event(event)


def test_frames_are_events_of_their_own():
    ids = TOKENIZER.encode_text("word word word")
    events = streamed(ids, [1, 2], frames=True)
    frames = [event["unmask"]["canvas"] for event in events if event["type"] == "keepalive"]
    assert [frame["seq"] for frame in frames] == [1, 2, 3]
    assert all(frame["masked"] == 1 for frame in frames)
    assert events[-1]["type"] == "response.completed"


def test_an_answer_without_words_is_an_empty_message():
    (item,) = streamed([], [])[-1]["response"]["output"]
    assert (item["type"], item["content"][0]["text"], item["status"]) == ("message", "", "completed")


def test_an_error_ends_the_stream_and_tells_how_far_it_came():
    stream = ResponseStream(draft(), CELLS)
    ids = TOKENIZER.encode_text("word word word")
    told = [*stream.start(), *stream.step(0, deltas(ids, [2])[0])]
    told.append(stream.fail(Problem.of(EngineFaultError("The engine stumbled."))))
    *_, error, failed = events = response_events(b"".join(told))
    assert (error["code"], error["message"], error["param"]) == ("engine_fault", "The engine stumbled.", None)
    response = failed["response"]
    assert (response["status"], response["store"]) == ("failed", False)
    assert response["error"] == {"code": "server_error", "message": "The engine stumbled."}
    (item,) = response["output"]
    assert item["status"] == "incomplete"
    assert item["content"][0]["text"] == TOKENIZER.decode(ids[:2])
    for event in events:
        check_event(event)


def test_a_full_queue_is_a_rate_limit():
    stream = ResponseStream(draft(), CELLS)
    failed = response_events(stream.fail(Problem.of(QueueFullError("Full."))))[-1]
    assert failed["response"]["error"]["code"] == "rate_limit_exceeded"

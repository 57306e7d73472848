"""Reasoning and calls in chat: the same for any cut of the engine's events, streamed and whole."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.serving.parts import READING, TOKENIZER, cuts, deltas
from tests.serving.wire import events, finish_of
from unmask.answers.reading import Reading
from unmask.engine.text import CellDecoder
from unmask.serving.dialects.openai_chat.encode import encode
from unmask.serving.dialects.openai_chat.mercury import MercuryStream
from unmask.serving.dialects.openai_chat.stream import ChatStream
from unmask.serving.dialects.openai_common.head import Head

HEAD = Head("chatcmpl-1", 1, "unmask-tiny")
CELLS = CellDecoder(TOKENIZER)
stops = st.sampled_from([(), ("wo",), ("</",), ("\n",)])
finishes = st.sampled_from(["stop", "length"])


def streamed(ids, borders, reading=READING, **options) -> list[dict]:
    stream = ChatStream(HEAD, CELLS, include_usage=True, copies=1)
    sent = stream.start()
    for delta in deltas(ids, borders, reading, **options):
        sent += stream.step(0, delta)
    return events(b"".join([*sent, *stream.end()]))


def assembled(chunks: list[dict]) -> dict:
    """The message that the chunks add up to, as client libraries add."""
    message: dict = {"content": "", "reasoning_content": "", "tool_calls": []}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning_content"):
                assert delta.get(key) != "" or "role" in delta
                message[key] += delta.get(key, "")
            for call in delta.get("tool_calls", ()):
                if "id" in call:
                    assert call["type"] == "function"
                    assert call["index"] == len(message["tool_calls"])
                    message["tool_calls"].append({"id": call["id"], "type": "function", "function": {"arguments": ""}})
                    message["tool_calls"][-1]["function"]["name"] = call["function"]["name"]
                message["tool_calls"][call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return message


@given(cuts(), stops, finishes, st.booleans())
def test_chat_parts_do_not_depend_on_cuts(cut, stop, finish, frames):
    ids, borders = cut
    reference = streamed(ids, [], stop=stop, finish=finish)
    chunks = streamed(ids, borders, stop=stop, finish=finish, frames=frames)
    assert assembled(chunks) == assembled(reference)
    assert finish_of(chunks) == finish_of(reference)
    assert chunks[-1]["usage"] == reference[-1]["usage"]
    answer = deltas(ids, borders, stop=stop, finish=finish)[-1].answer
    whole = msgspec.to_builtins(encode(HEAD, [answer], CELLS))
    (choice,) = whole["choices"]
    message = choice["message"]
    assert (message["content"] or "") == assembled(chunks)["content"]
    assert message.get("reasoning_content", "") == assembled(chunks)["reasoning_content"]
    assert message.get("tool_calls", []) == assembled(chunks)["tool_calls"]
    assert choice["finish_reason"] == finish_of(chunks)
    assert whole["usage"] == chunks[-1]["usage"]


@given(cuts())
def test_one_call_is_one_call(cut):
    ids, borders = cut
    many, one = (deltas(ids, borders, reading)[-1].answer for reading in (READING, ONE_CALL))
    assert one.tool_calls == many.tool_calls[:1]
    assert many.content.startswith(one.content)


ONE_CALL = Reading(READING.syntax, tools=True, one_call=True)


@given(cuts(), finishes)
def test_mercury_snapshots_end_with_the_answer(cut, finish):
    """Each is the whole text; calls are appended; the last one, and only that, tells that it is done."""
    ids, borders = cut
    stream = MercuryStream(HEAD, CELLS, include_usage=True)
    sent = []
    for delta in deltas(ids, borders, finish=finish):
        sent += stream.step(0, delta)
    *snapshots, last, usage = events(b"".join([*sent, *stream.end()]))
    answer = deltas(ids, borders, finish=finish)[-1].answer
    assert snapshots[-1]["choices"][0]["delta"]["content"] == answer.content
    assert [chunk["diffusion_meta"]["diffusion_progress"] == 1 for chunk in snapshots] == [
        chunk is snapshots[-1] for chunk in snapshots
    ]
    assert snapshots[-1]["choices"][0]["finish_reason"] == answer.finish
    assert last["choices"] == [{"delta": {}, "finish_reason": answer.finish, "index": 0}]
    assert usage["usage"] == streamed(ids, [], finish=finish)[-1]["usage"]
    calls: list[list[str]] = []
    for chunk in snapshots:
        for call in chunk["choices"][0]["delta"]["tool_calls"]:
            if call["id"] is not None:
                calls.append([call["function"]["name"], ""])
            calls[call["index"]][1] += call["function"]["arguments"]
    assert calls == [[call.name, call.arguments] for call in answer.tool_calls]


def test_whole_calls_have_arguments_that_are_json():
    text = '<think>a</think>b<tool_call>\n{"name": "f", "arguments": {"x": [1, "}"]}}\n</tool_call>'
    answer = deltas(TOKENIZER.encode_text(text), [])[-1].answer
    assert (answer.reasoning, answer.content, answer.finish) == ("a", "b", "tool_calls")
    assert [(call.name, json.loads(call.arguments)) for call in answer.tool_calls] == [("f", {"x": [1, "}"]})]
    assert 0 < answer.reasoning_tokens < answer.completion.completion_tokens


@pytest.mark.parametrize(
    ("end", "finish"),
    [
        ('{"a": 1}}\n</tool_call>', "tool_calls"),
        ('{"a": 1}}', "tool_calls"),
        ('{"a": 1}', "tool_calls"),  # all arguments are there
        ('{"a": 1', "stop"),
        ('{"a": "one STOP"}}\n</tool_call>', "stop"),
        ('{"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "f", "arguments": {"a', "stop"),
    ],
)
def test_a_call_that_broke_off_is_nothing_to_answer(end, finish):
    ids = TOKENIZER.encode_text('<tool_call>\n{"name": "f", "arguments": ' + end)
    answer = deltas(ids, [], stop=("STOP",))[-1].answer
    assert answer.finish == finish
    first = deltas(ids, [], replace(READING, one_call=True), stop=("STOP",))[-1].answer
    assert first.finish == ("tool_calls" if "\n<tool_call>" in end else finish)

"""Messages of a live server, seen by the official client."""

from __future__ import annotations

import json
import re
from typing import Literal

import aiohttp
import anthropic
import pytest
from pydantic import BaseModel

from tests.answers.reading import QWEN
from tests.serving.anthropic_messages.test_stream import check_order, decode
from tests.serving.fakes import finished, serving, until
from unmask.events import CanvasEvent

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]
TOOL = {
    "name": "add",
    "description": "Adds two numbers.",
    "input_schema": {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}


def ask(client: anthropic.Anthropic, messages=QUESTION, max_tokens=48, **fields):
    return client.messages.create(model="unmask-tiny", messages=messages, max_tokens=max_tokens, **fields)


def billed(usage) -> tuple[int, int]:
    return usage.input_tokens, usage.output_tokens


def test_an_answer_has_blocks_usage_and_report(client):
    answer = ask(client)
    (block,) = answer.content
    assert re.fullmatch(r"7 \+ 8 = \d+", block.text)
    assert (answer.type, answer.role, answer.model) == ("message", "assistant", "unmask-tiny")
    assert (answer.stop_reason, answer.stop_sequence) == ("end_turn", None)
    report = answer.model_extra["unmask"]
    assert report["tokens_per_forward"] == pytest.approx(answer.usage.output_tokens / report["forwards"], abs=1e-3)
    assert answer.usage.input_tokens >= report["cached_tokens"]


def test_counted_tokens_are_those_of_the_prompt(client):
    given = {"messages": QUESTION, "system": "You are brief.", "tools": [TOOL]}
    counted = client.messages.count_tokens(model="unmask-tiny", **given)
    assert counted.input_tokens == billed(ask(client, **given, max_tokens=1).usage)[0]
    assert counted.input_tokens > client.messages.count_tokens(model="unmask-tiny", messages=QUESTION).input_tokens


FIELDS = [
    {},
    {"max_tokens": 3},
    {"stop_sequences": ["zzz", " 8"]},
    {"extra_body": {"temperature": 0.0, "top_p": 0.9, "top_k": 5}},
    {"system": "You are brief."},
    {"system": [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral"}}]},
    {"max_tokens": 70, "extra_body": {"unmask": {"rule": "d2f", "ignore_eos": True}}},
    {"extra_body": {"unmask": {"rule": "low_confidence", "steps": 4, "block_length": 8}}},
    {"tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 64},
    {
        "tools": [TOOL],
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        "max_tokens": 64,
    },
    {"tools": [TOOL], "tool_choice": {"type": "none"}},
    {"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}},
    {"thinking": {"type": "adaptive"}, "service_tier": "standard_only", "metadata": {"user_id": "u"}},
    {"output_config": {"format": {"type": "json_schema", "schema": {"enum": ["yes", "no"]}}}},
]  # fmt: skip


@pytest.mark.parametrize("fields", FIELDS, ids=range(len(FIELDS)))
def test_streamed_and_whole_messages_are_equal(client, fields):
    whole = ask(client, **fields)
    given = {"max_tokens": 48} | fields
    with client.messages.stream(model="unmask-tiny", messages=QUESTION, **given) as stream:
        streamed = stream.get_final_message()
    assert [block.type for block in streamed.content] == [block.type for block in whole.content]
    for one, other in zip(streamed.content, whole.content, strict=True):
        left, right = one.to_dict(), other.to_dict()
        for block in (left, right):
            block.pop("id", None)
            block.pop("parsed_output", None)
        assert left == right
    assert (streamed.stop_reason, streamed.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert billed(streamed.usage) == billed(whole.usage)


def test_stop_sequences_are_told(client):
    answer = ask(client, stop_sequences=["zzz", "="])
    assert (answer.content[0].text, answer.stop_reason, answer.stop_sequence) == ("7 + 8 ", "stop_sequence", "=")
    assert ask(client, max_tokens=2).stop_reason == "max_tokens"


def test_a_forced_call_has_valid_input_and_can_be_answered(client):
    answer = ask(client, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=64)
    (call,) = answer.content
    assert (call.type, call.name, answer.stop_reason) == ("tool_use", "add", "tool_use")
    assert set(call.input) == {"a", "b"}
    result = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": [{"type": "text", "text": "15"}],
        "is_error": False,
    }
    turns = [*QUESTION, {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    assert ask(client, turns, tools=[TOOL]).role == "assistant"


def test_the_answer_goes_on_from_a_last_turn_of_the_assistant(client):
    whole = ask(client).content[0].text
    begun = whole[: whole.index("=") + 1]
    answer = ask(client, [*QUESTION, {"role": "assistant", "content": begun}])
    assert begun + answer.content[0].text == whole


def test_a_schema_is_kept(client):
    class Pet(BaseModel):
        kind: Literal["cat", "dog"]
        tame: bool

    answer = client.messages.parse(model="unmask-tiny", messages=QUESTION, max_tokens=64, output_format=Pet)
    assert answer.parsed_output == Pet.model_validate_json(answer.content[0].text)


def test_models_have_the_shape_of_the_client(client):
    (listed,) = client.models.list()
    assert listed == client.models.retrieve("unmask-tiny")
    assert (listed.id, listed.type, listed.max_input_tokens) == ("unmask-tiny", "model", 1024)


async def test_other_clients_get_the_other_shape_of_models(http):
    async with http.get("/v1/models") as response:
        assert (await response.json())["object"] == "list"


async def test_frames_are_events_of_their_own_and_only_on_request(http):
    body = {"messages": QUESTION, "max_tokens": 32, "stream": True, "unmask": {"rule": "low_confidence"}}
    kinds = {}
    for canvas in (None, "frames"):
        body["unmask"]["canvas"] = canvas
        async with http.post("/v1/messages", json=body) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            payloads = decode(await response.read())
        check_order(payloads)
        kinds[canvas] = [payload["type"] for payload in payloads]
        frames = [payload["unmask"]["canvas"] for payload in payloads if payload["type"] == "dllm_canvas"]
        assert [frame["seq"] for frame in frames] == [*range(1, len(frames) + 1)]
    assert "dllm_canvas" not in kinds[None]
    assert "dllm_canvas" in kinds["frames"]


@pytest.mark.parametrize(
    ("fields", "kind", "error"),
    [
        ({"max_tokens": 0}, "invalid_request_error", anthropic.BadRequestError),
        ({"model": "nope"}, "not_found_error", anthropic.NotFoundError),
        ({"system": "a" * 2**20}, "request_too_large", anthropic.ContentTooLargeError),
    ],
)
def test_errors_have_the_envelope_of_the_client(client, fields, kind, error):
    with pytest.raises(error) as caught:
        client.messages.create(**{"model": "unmask-tiny", "messages": QUESTION, "max_tokens": 1} | fields)
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["type"] == kind


async def test_silence_is_filled_with_pings_and_a_fault_is_an_error_event():
    async with serving(keep_alive_seconds=0.02) as fake, aiohttp.ClientSession() as session:
        body = {"messages": QUESTION, "max_tokens": 8, "stream": True}
        async with session.post(f"{fake.url}/v1/messages", json=body) as response:
            await until(lambda: bool(fake.engine.submitted))
            seen = b""
            while b"event: ping" not in seen:
                seen += await response.content.readany()
            fake.engine.say(CanvasEvent.failure(fake.engine.submitted[0].request_id, "engine_fault", "broken"))
            seen += await response.read()
    payloads = decode(seen)
    assert payloads[0]["type"] == "message_start"
    assert {payload["type"] for payload in payloads[1:-1]} == {"ping"}
    assert payloads[-1]["error"]["type"] == "api_error"


async def test_reasoning_text_and_calls_are_blocks_in_their_order():
    """Over a real socket, from the text of a model that reasons and calls."""
    text = (
        '<think>hm\nso</think>Let me see.<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
        '<tool_call>{"name": "add", "arguments": {"a": [2, {"b": "é"}]}}</tool_call>'
    )
    async with serving() as fake:
        fake.model.syntax = QWEN
        fake.engine.answer(fake.prompts.tokenizer.encode_text(text))
        async with anthropic.AsyncAnthropic(base_url=fake.url, api_key="none", max_retries=0) as client:
            given = {"model": "unmask-tiny", "messages": QUESTION, "max_tokens": 64, "tools": [TOOL]}
            whole = await client.messages.create(**given)
            async with client.messages.stream(**given) as stream:
                streamed = await stream.get_final_message()
            one = await client.messages.create(**given, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
            back = [*QUESTION, {"role": "assistant", "content": whole.content}]
            results = [{"type": "tool_result", "tool_use_id": block.id, "content": "3"} for block in whole.content[2:]]
            await client.messages.create(**given | {"messages": [*back, {"role": "user", "content": results}]})
    for answer in (whole, streamed):
        thinking, said, first, second = answer.content
        assert (thinking.thinking, said.text) == ("hm\nso", "Let me see.")
        assert thinking.signature
        assert (first.input, second.input) == ({"a": 1}, {"a": [2, {"b": "é"}]})
        assert first.id != second.id
        assert answer.stop_reason == "tool_use"
        assert answer.usage.output_tokens_details.thinking_tokens > 0
    assert [block.type for block in one.content] == ["thinking", "text", "tool_use"]


async def test_a_client_that_leaves_cancels_its_request():
    async with serving() as fake, aiohttp.ClientSession() as session:
        body = {"messages": QUESTION, "max_tokens": 8, "stream": True}
        response = await session.post(f"{fake.url}/v1/messages", json=body)
        await until(lambda: bool(fake.engine.submitted))
        response.close()
        await until(lambda: bool(fake.engine.cancelled))


async def test_a_full_queue_is_a_rate_limit_error():
    async with serving(capacity=1) as fake, aiohttp.ClientSession() as session:
        body = {"messages": QUESTION, "max_tokens": 8, "stream": True}
        async with session.post(f"{fake.url}/v1/messages", json=body):
            await until(lambda: bool(fake.engine.submitted))
            async with session.post(f"{fake.url}/v1/messages", json=body) as refused:
                assert refused.status == 429
                assert int(refused.headers["retry-after"]) >= 1
                assert json.loads(await refused.read())["error"]["type"] == "rate_limit_error"
            fake.engine.say(finished(fake.engine.submitted[0].request_id, [40]))

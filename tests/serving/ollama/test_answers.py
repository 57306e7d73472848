"""Chat and generate of a live server, seen by the official client."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import ollama
import pytest

from tests.answers.reading import QWEN
from tests.serving.fakes import serving, until
from tests.serving.ollama.test_stream import decode
from unmask.events import CanvasEvent

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]
PROMPT = QUESTION[0]["content"]
DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


def test_an_answer_has_text_counts_and_durations(client):
    answer = client.chat("unmask-tiny", QUESTION)
    assert answer.message.content.startswith("7 + 8 = ")
    assert (answer.message.role, answer.done, answer.done_reason) == ("assistant", True, "stop")
    assert answer.created_at.endswith("Z")
    assert all(type(answer[name]) is int for name in DURATIONS)
    assert answer.total_duration == answer.load_duration + answer.prompt_eval_duration + answer.eval_duration
    generated = client.generate("unmask-tiny", PROMPT)
    assert generated.response == answer.message.content
    assert (generated.prompt_eval_count, generated.eval_count) == (answer.prompt_eval_count, answer.eval_count)


FIELDS = [
    {},
    {"think": False},
    {"options": {"num_predict": 3}},
    {"options": {"num_predict": -1, "stop": "="}},
    {"options": {"stop": ["zzz", " 8"], "temperature": 0, "repeat_penalty": 1.0, "num_thread": 2}},
    {"options": {"temperature": 1.0, "seed": 11, "top_k": 5, "top_p": 0.9, "num_predict": 40}},
    {"options": {"num_ctx": 100, "unmask": {"rule": "d2f", "ignore_eos": True}}},
    {"format": {"enum": ["yes", "no"]}},
    {"logprobs": True, "top_logprobs": 2},
]


@pytest.mark.parametrize("fields", FIELDS, ids=range(len(FIELDS)))
def test_streamed_and_whole_answers_are_equal(client, fields):
    whole = client.chat("unmask-tiny", QUESTION, **fields)
    lines = [*client.chat("unmask-tiny", QUESTION, stream=True, **fields)]
    assert "".join(line.message.content for line in lines) == whole.message.content
    assert [entry for line in lines for entry in line.logprobs or ()] == list(whole.logprobs or ())
    last = lines[-1]
    assert (last.done_reason, last.eval_count) == (whole.done_reason, whole.eval_count)
    assert last.prompt_eval_count == whole.prompt_eval_count
    generated = [*client.generate("unmask-tiny", PROMPT, stream=True, **fields)]
    assert "".join(line.response for line in generated) == whole.message.content
    assert (generated[-1].done_reason, generated[-1].eval_count) == (whole.done_reason, whole.eval_count)


def test_the_last_line_says_why_it_ended(client):
    assert client.chat("unmask-tiny", QUESTION, options={"num_predict": 2}).done_reason == "length"
    stopped = client.chat("unmask-tiny", QUESTION, options={"stop": "="})
    assert (stopped.message.content, stopped.done_reason) == ("7 + 8 ", "stop")


def test_limits_of_the_context(client):
    told = client.generate("unmask-tiny", PROMPT, options={"num_predict": -1})
    room = 1024 - told.prompt_eval_count
    with pytest.raises(ollama.ResponseError, match="num_ctx"):
        client.generate("unmask-tiny", PROMPT, options={"num_ctx": told.prompt_eval_count})
    for limit in ({}, {"num_predict": 20}):
        cut = client.generate("unmask-tiny", PROMPT, options={"num_ctx": 20, "unmask": {"ignore_eos": True}} | limit)
        assert (cut.eval_count, cut.done_reason) == (20 - told.prompt_eval_count, "length")
    client.generate("unmask-tiny", PROMPT, options={"num_ctx": 9999, "num_predict": room})
    with pytest.raises(ollama.ResponseError, match="room for 1024"):
        client.generate("unmask-tiny", "word " * 3000, options={"num_predict": 9})


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_num_predict_may_be_more_than_the_context(http, path):
    """It is an upper bound; what is really in force is told."""
    asked = {"messages": QUESTION} if path == "/api/chat" else {"prompt": PROMPT}
    for most in (1024, 128_000):
        body = asked | {"options": {"num_predict": most}, "stream": False}
        async with http.post(path, json=body) as response:
            assert response.status == 200, await response.text()
            answer = await response.json()
        assert answer["unmask"]["applied"]["max_tokens"] == 1024 - answer["prompt_eval_count"]


def test_raw_prompts_do_without_the_template(client):
    raw = client.generate("unmask-tiny", PROMPT, raw=True, options={"num_predict": 4})
    assert raw.prompt_eval_count < client.generate("unmask-tiny", PROMPT, options={"num_predict": 4}).prompt_eval_count
    told = client.generate("unmask-tiny", PROMPT, system="You are brief.", options={"num_predict": 4})
    assert told.prompt_eval_count > raw.prompt_eval_count


def test_the_answer_goes_on_from_a_last_message_of_the_assistant(client):
    whole = client.chat("unmask-tiny", QUESTION).message.content
    begun = whole[: whole.index("=") + 1]
    rest = client.chat("unmask-tiny", [*QUESTION, {"role": "assistant", "content": begun}])
    assert begun + rest.message.content == whole


async def test_a_stream_is_what_is_sent_unless_told_otherwise(http):
    for stream, kind in ((None, "application/x-ndjson"), (True, "application/x-ndjson"), (False, "application/json")):
        body = {"messages": QUESTION} | ({} if stream is None else {"stream": stream})
        async with http.post("/api/chat", json=body) as response:
            assert response.headers["content-type"] == kind
            lines = decode(await response.read() + (b"" if kind.endswith("ndjson") else b"\n"))
        assert lines[-1]["done"]
        assert lines[-1]["unmask"]["applied"]["rule"] == "threshold"


async def test_frames_are_lines_of_their_own_and_only_on_request(http):
    for canvas in (None, "frames"):
        body = {"messages": QUESTION, "options": {"unmask": {"rule": "low_confidence", "canvas": canvas}}}
        async with http.post("/api/chat", json=body) as response:
            lines = decode(await response.read())
        frames = [line for line in lines if "canvas" in line.get("unmask", {})]
        assert bool(frames) == (canvas is not None)
        assert all(line["message"] == {"role": "assistant", "content": ""} for line in frames)
        assert all(0 <= line["completed"] <= line["total"] for line in frames)


def test_requests_for_nothing_tell_that_the_model_is_there(client):
    assert client.chat("unmask-tiny", []).done_reason == "load"
    assert client.generate("unmask-tiny", keep_alive="10m").done_reason == "load"
    for never in (0, "0", "0s", -0.0):
        assert client.generate("unmask-tiny", keep_alive=never).done_reason == "unload"
    for always in (-1, "-1m", "1.5h2.5m", 0.5):
        assert client.generate("unmask-tiny", keep_alive=always).done_reason == "load"
    assert client.chat("unmask-tiny", QUESTION).message.content


async def test_a_dead_engine_is_no_loaded_model():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as session:
        fake.engine.running = False
        async with session.post("/api/generate", json={}) as response:
            assert response.status == 503
            assert (await response.json())["code"] == "engine_unavailable"


async def test_silence_stays_silent_and_a_fault_is_a_line():
    async with (
        serving(keep_alive_seconds=0.01) as fake,
        aiohttp.ClientSession(fake.url) as session,
        session.post("/api/chat", json={"messages": QUESTION}) as response,
    ):
        await until(lambda: bool(fake.engine.submitted))
        await asyncio.sleep(0.1)
        fake.engine.say(CanvasEvent.failure(fake.engine.submitted[0].request_id, "engine_fault", "broken"))
        assert [json.loads(line)["error"] for line in (await response.read()).splitlines()] == ["broken"]


async def test_reasoning_and_calls_have_places_of_their_own():
    """Over a real socket, from the text of a model that reasons and calls."""

    def add(a: int) -> int:
        """Adds one.

        Args:
            a: The number.
        """
        return a + 1

    text = '<think>hm\nso</think>Let me see.<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
    async with serving() as fake:
        fake.model.syntax = QWEN
        fake.engine.answer(fake.prompts.tokenizer.encode_text(text))
        client = ollama.AsyncClient(fake.url)
        whole = (await client.chat("unmask-tiny", QUESTION, tools=[add])).message
        lines = [line.message async for line in await client.chat("unmask-tiny", QUESTION, tools=[add], stream=True)]
        result = {"role": "tool", "tool_name": "add", "content": "2"}
        await client.chat("unmask-tiny", [*QUESTION, whole, result], tools=[add])
        await client.close()
    assert (whole.thinking, whole.content) == ("hm\nso", "Let me see.")
    assert "".join(line.thinking or "" for line in lines) == whole.thinking
    assert "".join(line.content for line in lines) == whole.content
    for told in (whole.tool_calls, [call for line in lines for call in line.tool_calls or ()]):
        assert [(call.function.name, call.function.arguments) for call in told] == [("add", {"a": 1})]


async def test_a_client_that_leaves_cancels_its_request():
    async with serving() as fake, aiohttp.ClientSession() as session:
        response = await session.post(f"{fake.url}/api/chat", json={"messages": QUESTION})
        await until(lambda: bool(fake.engine.submitted))
        response.close()
        await until(lambda: bool(fake.engine.cancelled))

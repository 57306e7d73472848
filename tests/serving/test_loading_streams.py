"""A stream begins while its model is still being loaded, and says so; whoever leaves does not wait any more."""

from __future__ import annotations

import asyncio
import json
import sys

import aiohttp
import anthropic
import openai
import psutil
import pytest

from tests.conftest import ROOT
from tests.serving.fakes import ScriptedEngine, SlowEntry, listening, until
from unmask.errors import ModelLoadFailedError
from unmask.gateway.child import Child
from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.serving.house import House
from unmask.serving.lane_entry import LaneEntry
from unmask.serving.listing import Listing

MESSAGES = [{"role": "user", "content": "What is 7 + 8?"}]
BODIES = {
    "/v1/chat/completions": {"messages": MESSAGES, "stream": True},
    "/v1/completions": {"prompt": "7 + 8", "stream": True},
    "/v1/responses": {"input": "What is 7 + 8?", "stream": True},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 20, "stream": True},
    "/api/chat": {"messages": MESSAGES},
    "/api/generate": {"prompt": "7 + 8"},
}
LAST = {
    "/v1/chat/completions": b"data: [DONE]\n\n",
    "/v1/completions": b"data: [DONE]\n\n",
    "/v1/responses": b"event: response.completed\n",
    "/v1/messages": b"event: message_stop\n",
    "/api/chat": b'"done":true',
    "/api/generate": b'"done":true',
}
PATHS = [*BODIES]
SILENCE = 0.05  # seconds, after which a stream begins
BROKEN = ModelLoadFailedError("The model is broken.", hint="Mend it.")


@pytest.fixture
async def entry():
    engine = ScriptedEngine()
    entry = SlowEntry(engine)
    engine.answer(entry.prompts.tokenizer.encode_text("15"))
    return entry


@pytest.mark.parametrize("path", PATHS)
async def test_a_stream_begins_while_its_model_is_loaded(path, entry):
    entry.share = 0.42
    async with listening(House([entry]), keep_alive_seconds=SILENCE) as url, aiohttp.ClientSession(url) as http:
        async with asyncio.timeout(20), http.post(path, json=BODIES[path]) as response:
            assert response.status == 200  # the model is not there yet, and nobody lets it
            if path.startswith("/api/"):
                await asyncio.sleep(4 * SILENCE)
            else:
                silence = b""
                while silence.count(b": loading unmask-tiny 42 %\n") < 2:
                    silence += await response.content.readany()
                rest = {line for line in silence.split(b"\n") if not line.startswith(b":")}
                assert rest == ({b"", b"event: ping", b'data: {"type":"ping"}'} if path == "/v1/messages" else {b""})
            entry.outcome.set_result(None)
            body = await response.read()
        assert LAST[path] in body
        assert b"15" in body
        if path.startswith("/api/"):
            assert all(json.loads(line)["model"] for line in body.splitlines())  # nothing was said meanwhile


@pytest.mark.parametrize("path", PATHS)
async def test_a_failure_before_the_stream_is_an_http_error(path, entry):
    async with listening(House([entry]), keep_alive_seconds=30) as url, aiohttp.ClientSession(url) as http:
        asking = asyncio.create_task(http.post(path, json=BODIES[path]))
        await until(lambda: entry.loading == 1)
        entry.outcome.set_exception(BROKEN)
        async with asyncio.timeout(20), await asking as response:
            assert response.status == BROKEN.status
            assert BROKEN.code in await response.text()


@pytest.mark.parametrize("path", PATHS)
async def test_a_failure_after_it_began_is_an_event(path, entry):
    async with (
        listening(House([entry]), keep_alive_seconds=SILENCE) as url,
        aiohttp.ClientSession(url) as http,
        asyncio.timeout(20),
        http.post(path, json=BODIES[path]) as response,
    ):
        assert response.status == 200
        entry.outcome.set_exception(BROKEN)
        body = (await response.read()).decode()
    assert "[DONE]" not in body
    error = json.loads(body.rstrip("\n").rpartition("data: ")[2])
    told = {"code": BROKEN.code, "param": None}
    if path.startswith("/api/"):
        assert error == told | {"error": str(BROKEN)}
    elif path == "/v1/responses":
        assert error == told | {"message": str(BROKEN), "type": "error", "sequence_number": 0}
    elif path == "/v1/messages":
        assert error == {"type": "error", "error": told | {"message": str(BROKEN), "type": "api_error"}}
    else:
        assert error == {"error": told | {"message": str(BROKEN), "type": "server_error"}}
    assert ("event: error\ndata: " in body) == (path in ("/v1/responses", "/v1/messages"))


@pytest.mark.parametrize("path", PATHS)
async def test_a_full_queue_after_it_began_is_an_event_too(path):
    entry = SlowEntry(ScriptedEngine(), capacity=0)
    async with (
        listening(House([entry]), keep_alive_seconds=SILENCE) as url,
        aiohttp.ClientSession(url) as http,
        asyncio.timeout(20),
        http.post(path, json=BODIES[path]) as response,
    ):
        entry.outcome.set_result(None)
        assert '"queue_full"' in await response.text()


@pytest.fixture
async def openai_client(entry):
    async with (
        listening(House([entry]), keep_alive_seconds=SILENCE) as url,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client,
    ):
        yield client


async def test_openai_s_client_is_not_disturbed(entry, openai_client):
    chunks = await openai_client.chat.completions.create(model="unmask-tiny", messages=MESSAGES, stream=True)
    await asyncio.sleep(2 * SILENCE)
    entry.outcome.set_result(None)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in chunks]) == "15"


async def test_openai_s_client_of_responses_is_not_disturbed(entry, openai_client):
    told = await openai_client.responses.create(model="unmask-tiny", input="7 + 8", stream=True)
    await asyncio.sleep(2 * SILENCE)
    entry.outcome.set_result(None)
    kinds = [event.type async for event in told]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")


async def test_anthropic_s_client_is_not_disturbed(entry):
    asked = {"model": "unmask-tiny", "max_tokens": 20, "messages": MESSAGES}
    async with (
        listening(House([entry]), keep_alive_seconds=SILENCE) as url,
        anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client,
        client.messages.stream(**asked) as stream,
    ):
        await asyncio.sleep(2 * SILENCE)
        entry.outcome.set_result(None)
        assert await stream.get_final_text() == "15"


async def test_openai_s_client_is_told_of_a_failure(entry, openai_client):
    chunks = await openai_client.chat.completions.create(model="unmask-tiny", messages=MESSAGES, stream=True)
    entry.outcome.set_exception(BROKEN)
    with pytest.raises(openai.APIError, match="The model is broken") as caught:
        [chunk async for chunk in chunks]
    assert caught.value.code == BROKEN.code


async def test_whole_answers_just_wait(entry):
    async with listening(House([entry]), keep_alive_seconds=SILENCE) as url, aiohttp.ClientSession(url) as http:
        body = BODIES["/v1/chat/completions"] | {"stream": False}
        asking = asyncio.create_task(http.post("/v1/chat/completions", json=body))
        await asyncio.sleep(4 * SILENCE)
        assert not asking.done()
        entry.outcome.set_result(None)
        async with asyncio.timeout(20), await asking as response:
            assert (await response.json())["choices"][0]["message"]["content"] == "15"


def slow_child(name: str, directory: RunDirectory) -> LaneEntry:
    """A model whose child says for ever that it is loading."""
    command = [sys.executable, "-m", "tests.gateway.fake_engine"]
    plan = ChildPlan(
        name=name,
        command=lambda port: [*command, str(port), "--loading", "1000"],
        probe=Probe(body={"model": name, "prompt": "Hello", "max_tokens": 1}),
        environment={"PYTHONPATH": str(ROOT), "SLOW_CHILD": name},
    )

    async def connect() -> tuple[Endpoint, Child]:
        child = await Child.start(plan, directory)
        endpoint = Endpoint(lane="llama.cpp", kind="llama.cpp", base_url=f"{child.url}/v1", model=name)
        return endpoint, child

    listing = Listing(name=name, created=0, lane="llama.cpp", paradigm="autoregressive", family="llama")
    return LaneEntry(listing, connect, capacity=4, log=directory.log_path(name))


def processes(name: str) -> list[psutil.Process]:
    """Those that serve, or would serve, the model."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("SLOW_CHILD") == name:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.mark.parametrize("stream", [False, True])
async def test_a_load_that_nobody_waits_for_any_more_ends_with_its_child(stream, tmp_path):
    name = f"slow/{tmp_path.name}"
    house = House([slow_child(name, RunDirectory(tmp_path))])
    async with listening(house, keep_alive_seconds=SILENCE) as url, aiohttp.ClientSession(url) as http:
        body = BODIES["/v1/chat/completions"] | {"model": name, "stream": stream}
        first, second = (asyncio.create_task(_read(http, body)) for _ in range(2))
        await until(lambda: bool(processes(name)) and house.states()[0].waiting == 2, 20)
        first.cancel()
        await until(lambda: house.states()[0].waiting == 1)
        assert house.states()[0].state == "loading"  # somebody still waits
        assert processes(name)
        second.cancel()
        await until(lambda: house.states()[0].state == "absent", 20)
        assert house.states()[0].waiting == 0
        await until(lambda: processes(name) == [])  # their ends are seen a moment later on a busy machine


async def _read(http, body) -> bytes:
    async with http.post("/v1/chat/completions", json=body) as response:
        return await response.read()

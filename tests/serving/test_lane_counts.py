"""What is told of models on other engines' lanes: their tokens, their waits, and nothing of canvases."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import aiohttp
import pytest

from tests.gateway.upstream.fake import BREAK, HI, Script, chunk, endpoint, fake, stream, usage
from tests.serving.fakes import serving
from tests.serving.test_lanes import LISTING, entry_at
from unmask.serving.lane_entry import LaneEntry

CANVAS = {"forwards", "blocks", "tokens_per_forward", "canvas_tokens", "discarded_tokens", "evictions", "drafts"}
WHOLE = Script([stream(chunk(content="Once upon"), chunk("stop"), usage(7, 3))])
CUT = stream(chunk(content="Once "), chunk(content="upon a time"), done=False)


async def ask(http, path="/v1/chat/completions", **more):
    async with http.post(path, json={"model": "m", "messages": HI, **more}) as response:
        return json.loads(await response.read()), response


async def journal(http, settled=lambda record: record["outcome"] != "running"):
    async def newest():
        async with http.get("/unmask/requests") as response:
            return (await response.json())["requests"][0]

    async with asyncio.timeout(5):
        while not settled(record := await newest()):
            await asyncio.sleep(0.01)
    return record


async def test_what_there_is_not_is_absent_from_answers_headers_and_the_journal():
    async with (
        fake(WHOLE) as far,
        serving(entry_at(far.url)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):
        answer, response = await ask(http)
        line, _ = await ask(http, "/api/chat", stream=False)
        assert answer["unmask"].keys() == line["unmask"].keys()
        assert not answer["unmask"].keys() & CANVAS
        headers = {name.removeprefix("x-unmask-") for name in response.headers if name.startswith("x-unmask-")}
        assert headers == {"lane", "load-ms", "queue-ms", "total-ms", "ttfb-ms"}
        assert not {"forwards", "blocks"} & (await journal(http)).keys()


@pytest.mark.parametrize(("paradigm", "frames"), [("autoregressive", False), ("diffusion", True)])
async def test_metrics_of_canvases_are_those_of_our_own_engine(paradigm, frames):
    entry = entry_at("http://127.0.0.1:1/v1", listing=replace(LISTING, paradigm=paradigm))
    async with (
        serving(entry) as server,
        aiohttp.ClientSession(server.url) as http,
        http.get("/metrics") as response,
    ):
        samples = [line for line in (await response.text()).splitlines() if not line.startswith("#")]
    shown = {
        lane: {line.partition("{")[0] for line in samples if f'lane="{lane}"' in line} for lane in ("my-lane", "unmask")
    }
    assert shown["my-lane"] < shown["unmask"]
    words = ("canvas", "forward", "block", "step", "evict", "kv_pages", "committed", "discarded", "prompt_tokens")
    canvases = {name for name in shown["unmask"] if any(word in name for word in words)}
    assert len(canvases) > 30
    of_frames = {"unmask_canvas_frames_sent_total", "unmask_canvas_frames_sent_created"}
    first = {name for name in canvases if name.startswith("unmask_time_to_first_block")}
    assert canvases & shown["my-lane"] == first | (of_frames if frames else set())


async def test_what_was_delivered_before_an_engine_broke_off_is_counted():
    """By the text, since the lane has not told."""
    async with (
        fake(Script([CUT, 0.2, BREAK])) as far,
        serving(entry_at(far.url)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):
        async with http.post("/v1/chat/completions", json={"model": "m", "messages": HI, "stream": True}) as response:
            assert "engine_crashed" in await response.text()
        record = await journal(http)
        assert (record["outcome"], record["finish"], record["completion_tokens"]) == ("failed", ["error"], 4)
        assert record["prompt_tokens"] > 0


async def test_what_was_delivered_before_the_client_left_is_counted():
    told = chunk(content="a") | {"usage": {"prompt_tokens": 9, "completion_tokens": 6}}
    async with (
        fake(Script([stream(told, done=False), 60.0])) as far,
        serving(entry_at(far.url)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):
        async with http.post("/v1/chat/completions", json={"model": "m", "messages": HI, "stream": True}) as response:
            while b'"content":"a"' not in await response.content.readline():
                pass
        record = await journal(http)
        assert (record["outcome"], record["finish"]) == ("left", ["cancelled"])
        assert (record["prompt_tokens"], record["completion_tokens"]) == (9, 6)


async def test_nothing_is_counted_of_what_was_not_begun():
    async with (
        fake(Script([BREAK])) as far,
        serving(entry_at(far.url)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):
        await ask(http)
        record = await journal(http)
        assert (record["finish"], record["prompt_tokens"], record["completion_tokens"]) == (["error"], 0, 0)


async def test_the_wait_for_a_model_is_told_with_its_answer():
    async with fake(WHOLE) as far:

        async def connect():
            await asyncio.sleep(0.3)
            return endpoint(far.url), None

        async with (
            serving(LaneEntry(LISTING, connect, capacity=8)) as server,
            aiohttp.ClientSession(server.url) as http,
        ):
            first, _ = await ask(http, "/api/chat", stream=False)
            again, response = await ask(http)
            assert first["load_duration"] >= 300_000_000
            assert first["total_duration"] == first["load_duration"] + first["eval_duration"]
            assert first["unmask"]["load_ms"] >= 300 > first["unmask"]["queue_ms"]
            assert again["unmask"]["load_ms"] < 300
            assert float(response.headers["x-unmask-load-ms"]) == again["unmask"]["load_ms"]

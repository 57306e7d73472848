"""A client that leaves is noticed at once: streaming or not, running or waiting."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.serving.test_operations import LONG, scrape

ENDPOINTS = [
    ("/v1/completions", {}),
    ("/v1/completions", {"stream": True}),
    ("/v1/completions", {"prompt": ["one", "two", "three"], "stream": True}),
    ("/v1/chat/completions", {"prompt": None, "messages": [{"role": "user", "content": "Tell me a story."}]}),
    (
        "/v1/chat/completions",
        {"prompt": None, "messages": [{"role": "user", "content": "Tell me a story."}], "stream": True},
    ),
]


async def send(url: str, path: str, body: dict) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The request on a socket of its own."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    data = json.dumps({name: value for name, value in body.items() if value is not None}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()
    return reader, writer


async def until_running(http, count: int) -> dict[str, float]:
    async with asyncio.timeout(20):
        while (metrics := await scrape(http))["unmask_requests_running"] != count:
            await asyncio.sleep(0.01)
    return metrics


@pytest.mark.parametrize(("path", "fields"), ENDPOINTS)
@pytest.mark.parametrize("reset", [False, True])
async def test_leaving_frees_the_engine_at_once(server, http, path, fields, reset):
    before = await scrape(http)
    body = LONG | fields
    prompts = len(body["prompt"]) if isinstance(body["prompt"], list) else 1
    reader, writer = await send(server.url, path, body)
    await until_running(http, prompts)
    if body.get("stream"):
        await reader.readuntil(b"data: ")
    left = time.monotonic()
    if reset:
        writer.transport.abort()
    else:
        writer.close()
    after = await until_running(http, 0)
    assert time.monotonic() - left < 2.0  # the whole answer takes several times as long
    assert after["unmask_kv_pages_in_use"] == 0
    assert after["unmask_disconnects_total"] - before["unmask_disconnects_total"] == prompts
    await asyncio.sleep(0.3)
    later = await scrape(http)
    assert later["unmask_engine_steps_total"] == after["unmask_engine_steps_total"]  # nothing goes on


async def test_a_stop_string_ends_the_work_too(http):
    body = LONG | {"stop": [" ", "e", "a"]}
    async with http.post("/v1/completions", json=body) as response:
        answer = await response.json()
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["unmask"]["forwards"] < 600
    await until_running(http, 0)

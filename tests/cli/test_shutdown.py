"""`unmask serve` that is told to stop: what runs may end, nobody else gets in."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time

import aiohttp
import pytest

from tests.serving.processes import Server, serve
from tests.serving.wire import events

TEXT = "/v1/completions"
LONG = {"prompt": "one two three", "max_tokens": 300}
LONG["unmask"] = {"rule": "low_confidence", "cache": "none", "end_tokens": "never"}
ENDLESS = LONG | {"max_tokens": 1000}


async def stream(session: aiohttp.ClientSession, body: dict, begun: asyncio.Event) -> bytes:
    """A whole stream; ``begun`` is set with its first event."""
    async with session.post(TEXT, json=body | {"stream": True, "stream_options": {"include_usage": True}}) as response:
        first = await response.content.readuntil(b"\n\n")
        begun.set()
        return first + await response.read()


async def refused(url: str) -> bool:
    """Whether a new client is turned away: told to come back, or not let in at all."""
    try:
        async with aiohttp.ClientSession(url) as session, session.get("/v1/models") as response:
            return response.status == 503 and "retry-after" in response.headers
    except aiohttp.ClientError:
        return True


def test_running_requests_end_and_new_ones_are_not_let_in():
    async def talk(server: Server) -> None:
        async with aiohttp.ClientSession(server.url) as session:
            begun = asyncio.Event()
            streaming = asyncio.create_task(stream(session, LONG, begun))
            whole = asyncio.create_task(session.post(TEXT, json=LONG))
            await begun.wait()
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            assert not streaming.done(), "the requests must be longer"
            assert not whole.done()
            assert await refused(server.url)
            payload = await streaming
            assert payload.endswith(b"data: [DONE]\n\n")
            assert events(payload)[-1]["usage"]["completion_tokens"] == 300
            async with await whole as response:
                assert (await response.json())["usage"]["completion_tokens"] == 300

    with serve("--grace", "250") as server:
        asyncio.run(talk(server))
        ended = time.monotonic()
        assert server.process.wait(20) == 0
        assert time.monotonic() - ended < 5, "it waits for nothing more"
    assert any("event=stopping" in line for line in server.log)
    assert "Traceback" not in "".join(server.log)


@pytest.mark.slow
def test_an_idle_server_stops_at_once_whatever_is_connected():
    async def talk(server: Server) -> None:
        port = int(server.url.rpartition(":")[2])
        async with aiohttp.ClientSession(server.url) as session:
            async with session.get("/health") as response:  # kept alive
                assert response.status == 200
            _, silent = await asyncio.open_connection("127.0.0.1", port)
            _, half = await asyncio.open_connection("127.0.0.1", port)
            half.write(b"POST /v1/completions HTTP/1.1\r\nhost: local")
            await asyncio.sleep(0.1)
            begun = time.monotonic()
            assert await asyncio.to_thread(server.stop) == 0
            assert time.monotonic() - begun < 5
            silent.close()
            half.close()

    with serve("--grace", "60") as server:
        asyncio.run(talk(server))


@pytest.mark.slow
def test_what_runs_longer_than_the_grace_is_told_why_it_ends():
    async def talk(server: Server) -> None:
        async with aiohttp.ClientSession(server.url) as session:
            begun = asyncio.Event()
            streaming = asyncio.create_task(stream(session, ENDLESS, begun))
            whole = asyncio.create_task(session.post(TEXT, json=ENDLESS))
            await begun.wait()
            server.process.send_signal(signal.SIGTERM)
            payload = await streaming
            assert b'"code":"engine_unavailable"' in payload.split(b"\n\n")[-2]
            assert b"[DONE]" not in payload
            async with await whole as response:
                assert response.status == 503
                assert (await response.json())["error"]["code"] == "engine_unavailable"
                assert int(response.headers["retry-after"]) > 0

    with serve("--grace", "0.2") as server:
        asyncio.run(talk(server))
        assert server.process.wait(20) == 0
    assert "Traceback" not in "".join(server.log)


@pytest.mark.slow
def test_a_client_that_takes_nothing_does_not_hold_up_the_end():
    """Its answer is larger than what the kernel keeps for it."""
    body = json.dumps({"prompt": "7 " * 400_000, "return_token_strs": True}).encode()
    head = b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with serve("--grace", "0.5") as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert client.recv(12) == b"HTTP/1.1 200"
        begun = time.monotonic()
        assert server.stop() == 0
        assert 2 < time.monotonic() - begun < 10
    assert "Traceback" not in "".join(server.log)

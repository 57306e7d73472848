"""`unmask serve` that is told to stop: what runs may end, nobody else gets in."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time

import aiohttp
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.processes import Server, serve
from tests.serving.wire import events

TEXT = "/v1/completions"
TOKENS = 120
LONG = {"prompt": "one two three", "max_tokens": TOKENS}
LONG["unmask"] = {"rule": "low_confidence", "cache": "none", "end_tokens": "never"}
ENDLESS = LONG | {"max_tokens": 1000}


async def stream(session: aiohttp.ClientSession, body: dict, begun: asyncio.Event) -> bytes:
    """A whole stream; ``begun`` is set with its first event."""
    async with session.post(TEXT, json=body | {"stream": True, "stream_options": {"include_usage": True}}) as response:
        first = await response.content.readuntil(b"\n\n")
        begun.set()
        return first + await response.read()


async def check_refused(session: aiohttp.ClientSession) -> None:
    """New clients are told to come back, those who only look are answered."""
    async with session.post(TEXT, json=LONG) as response:
        assert (response.status, response.headers["connection"]) == (503, "close")
        assert int(response.headers["retry-after"]) > 0
        assert (await response.json())["error"]["code"] == "shutting_down"
    async with session.get("/ready") as response:
        assert response.status == 503
        assert (await response.json())["error"]["code"] == "shutting_down"
    async with session.get("/health") as response:
        assert response.status == 200
    async with session.get("/metrics") as response:
        families = text_string_to_metric_families(await response.text())
        samples = [one for family in families for one in family.samples if one.name == "unmask_requests_rejected_total"]
        assert [(one.labels["reason"], one.value) for one in samples] == [("shutting_down", 1.0)]


def test_running_requests_end_and_new_ones_are_refused():
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
            await check_refused(session)
            payload = await streaming
            assert payload.endswith(b"data: [DONE]\n\n")
            assert events(payload)[-1]["usage"]["completion_tokens"] == TOKENS
            async with await whole as response:
                assert (await response.json())["usage"]["completion_tokens"] == TOKENS

    with serve("--grace", "250") as server:
        asyncio.run(talk(server))
        ended = time.monotonic()
        assert server.process.wait(20) == 0
        assert time.monotonic() - ended < 2, "it waits for nothing more"
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
            assert time.monotonic() - begun < 2
            silent.close()
            half.close()

    with serve("--grace", "60") as server:
        asyncio.run(talk(server))


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
        assert 1 <= time.monotonic() - begun < 3
    assert "Traceback" not in "".join(server.log)


def test_an_engine_that_does_not_answer_does_not_hold_up_the_end():
    with serve() as server:
        (engine,) = psutil.Process(server.process.pid).children()
        engine.suspend()
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 4
        assert not engine.is_running()


def test_the_engine_ends_with_a_server_that_was_killed():
    """In the middle of its work, about which nobody can be told any more."""

    async def talk(server: Server) -> None:
        async with aiohttp.ClientSession(server.url) as session:
            begun = asyncio.Event()
            streaming = asyncio.create_task(stream(session, ENDLESS, begun))
            await begun.wait()
            server.process.kill()
            with pytest.raises(aiohttp.ClientError):
                await streaming

    with serve() as server:
        engines = psutil.Process(server.process.pid).children(recursive=True)
        assert engines
        asyncio.run(talk(server))
        _, alive = psutil.wait_procs(engines, timeout=3)
        assert not alive
    assert "Traceback" not in "".join(server.log)

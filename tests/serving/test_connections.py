"""Connections that would be held for nothing, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serving.fakes import FakeServer, finished, serving, until
from unmask.serving import http_protocol

SOON = 0.4  # seconds that the servers of these tests wait


@pytest.fixture(autouse=True)
def _no_spare_time(monkeypatch):
    monkeypatch.setattr(http_protocol, "_SPARE_SECONDS", 0.2)


@asynccontextmanager
async def connected(fake: FakeServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(fake.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict]:
    """Status and body of the next response on a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.split("content-length: ")[1].split("\r\n")[0])
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def drip(writer: asyncio.StreamWriter, piece: bytes, count: int = 60) -> None:
    """Send ``piece`` again and again, until the server has had enough."""
    try:
        for _ in range(count):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
    except OSError:
        pass


async def ends(reader: asyncio.StreamReader, *, after: float, before: float) -> bytes:
    """What comes until the server closes, which it does in time."""
    begun = time.monotonic()
    try:
        rest = await asyncio.wait_for(reader.read(), before + 2)
    except ConnectionResetError:
        rest = b""
    assert after <= time.monotonic() - begun < before
    return rest


async def test_a_client_that_says_nothing_is_not_waited_for():
    async with serving(receive_seconds=SOON) as fake, connected(fake) as (reader, _):
        assert await ends(reader, after=SOON / 2, before=2) == b""


@pytest.mark.parametrize("piece", [b"x-a: b\r\n", b"a"])
async def test_headers_that_never_end_take_too_long(piece):
    async with serving(receive_seconds=SOON) as fake, connected(fake) as (reader, writer):
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nx-b: ")
        dripping = asyncio.create_task(drip(writer, piece))
        status, body = await answer(reader)
        assert (status, body["error"]["code"]) == (408, "request_timeout")
        await ends(reader, after=0, before=1)
        await dripping


async def test_headers_that_are_late_are_told_so_in_the_words_of_their_path():
    async with serving(receive_seconds=SOON) as fake, connected(fake) as (reader, writer):
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-b: ")
        status, body = await answer(reader)
        assert (status, body["type"], body["error"]["type"]) == (408, "error", "timeout_error")


async def test_empty_lines_do_not_keep_a_connection():
    async with serving(receive_seconds=SOON) as fake, connected(fake) as (reader, writer):
        dripping = asyncio.create_task(drip(writer, b"\r\n"))
        await ends(reader, after=SOON / 2, before=2)
        await dripping


async def test_nor_do_they_after_an_answer():
    async with serving(receive_seconds=SOON) as fake, connected(fake) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await answer(reader))[0] == 200
        dripping = asyncio.create_task(drip(writer, b"\r\n"))
        await ends(reader, after=SOON / 2, before=2)
        await dripping


async def test_a_body_that_never_ends_takes_too_long():
    async with serving(receive_seconds=SOON) as fake, connected(fake) as (reader, writer):
        head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(head + b"content-length: 1000\r\n\r\n")
        dripping = asyncio.create_task(drip(writer, b" "))
        status, body = await answer(reader)
        assert (status, body["error"]["code"]) == (408, "request_timeout")
        await ends(reader, after=0, before=2)  # it goes on dripping, and is cut off
        await dripping


async def test_a_body_that_nobody_reads_takes_too_long():
    async with serving(receive_seconds=SOON, api_key="s3cret") as fake, connected(fake) as (reader, writer):
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n")
        dripping = asyncio.create_task(drip(writer, b" "))
        assert (await answer(reader))[0] == 401
        await ends(reader, after=0, before=2)
        await dripping


async def test_a_body_that_comes_in_time_may_come_in_pieces():
    async with serving(receive_seconds=2) as fake, connected(fake) as (reader, writer):
        fake.engine.answer([40])
        head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        for byte in head + b'content-length: 15\r\n\r\n{"prompt": "a"}':
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.002)
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize("end", [30, -5])
async def test_long_answers_are_not_cut_by_what_bounds_requests(end):
    """Nor by empty lines, or a part of a second request, that the client sends meanwhile."""
    async with serving(receive_seconds=SOON, keep_alive_seconds=0.1) as fake, connected(fake) as (reader, writer):
        head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        second = head + b'content-length: 15\r\n\r\n{"prompt": "a"}'
        writer.write(head + b'content-length: 31\r\n\r\n{"prompt": "a", "stream": true}\r\n')
        await until(lambda: len(fake.engine.submitted) == 1)
        writer.write(second[:end])
        await asyncio.sleep(4 * SOON)
        fake.engine.answer([40])
        fake.engine.say(finished(fake.engine.submitted[0].request_id, [40]))
        assert b"[DONE]" in await reader.readuntil(b"[DONE]\n\n\r\n0\r\n\r\n")
        writer.write(second[end:])
        assert (await answer(reader))[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"x-%d: 1\r\n" % number for number in range(101)),
        b"x: " + b"a" * 40_000 + b"\r\n",
    ],
)
async def test_too_many_or_too_large_headers(head):
    async with serving() as fake, connected(fake) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n")
        status, body = await answer(reader)
        assert (status, body["error"]["code"]) == (431, "headers_too_large")


async def test_a_long_path_is_a_large_header():
    async with serving() as fake, connected(fake) as (reader, writer):
        writer.write(b"GET /health?" + b"a" * 40_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await answer(reader))[0] == 431


@pytest.mark.parametrize("begin", [b"GET /", b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: "])
async def test_a_head_without_end_is_not_kept(begin):
    async with serving() as fake, connected(fake) as (reader, writer):
        writer.write(begin)
        sent = 0
        try:
            while sent < 2**24 and not reader.at_eof():
                writer.write(b"a" * 2**14)
                await writer.drain()
                await asyncio.sleep(0)
                sent += 2**14
        except OSError:
            pass
        assert sent < 2**22  # the kernel's buffers hold some
        with contextlib.suppress(ConnectionResetError):  # it was closed while more was on its way
            assert (await answer(reader))[1]["error"]["code"] == "headers_too_large"


REQUESTS = (
    b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b'content-length: 15\r\n\r\n{"prompt": "a"}'
    b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, len(REQUESTS)), max_size=6),
    junk=st.binary(min_size=1, max_size=60),
    at=st.floats(0, 1),
)
def test_bytes_come_as_they_like(cuts, junk, at):
    """Cut anywhere, requests get their answers; spoilt anywhere, the connection ends, and the server goes on."""

    async def talk() -> None:
        async with serving(receive_seconds=5) as fake:
            fake.engine.answer([40])
            async with connected(fake) as (reader, writer):
                borders = [0, *sorted(cuts), len(REQUESTS)]
                for begin, end in itertools.pairwise(borders):
                    writer.write(REQUESTS[begin:end])
                    await asyncio.sleep(0.001)
                assert [(await answer(reader))[0] for _ in range(2)] == [200, 200]
            async with connected(fake) as (reader, writer):
                place = round(at * len(REQUESTS))
                writer.write(REQUESTS[:place] + junk + REQUESTS[place:])
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 4)
            async with aiohttp.ClientSession() as session, session.get(f"{fake.url}/health") as response:
                assert response.status == 200

    asyncio.run(talk())


async def test_what_is_no_http_is_told_so_as_other_errors_are():
    async with serving() as fake, connected(fake) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        status, body = await answer(reader)
        assert (status, body["error"]["code"]) == (400, "invalid_value")
        assert await reader.read() == b""


async def test_one_connection_too_many():
    async with serving(max_connections=2) as fake:
        async with connected(fake), connected(fake), connected(fake) as (reader, writer):
            writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            status, body = await answer(reader)
            assert (status, body["error"]["code"]) == (503, "too_many_connections")
            assert await reader.read() == b""
        async with aiohttp.ClientSession() as session, asyncio.timeout(5):
            status = 503
            while status == 503:  # until the server has seen that the others are gone
                async with session.get(f"{fake.url}/health") as response:
                    status = response.status
        assert status == 200


async def test_a_client_that_takes_nothing_is_left():
    body = json.dumps({"prompt": "7 " * 400_000, "return_token_strs": True}).encode()
    async with serving(stall_seconds=SOON) as fake:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect(("127.0.0.1", int(fake.url.rpartition(":")[2])))
        small.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=small, limit=2**12)
        head = b"POST /tokenize HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        begun = await reader.readuntil(b"content-length: ")
        length = int(await reader.readuntil(b"\r\n"))
        assert begun
        await asyncio.sleep(3 * SOON)  # takes nothing more
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(length)
        writer.close()


async def test_the_same_answer_is_whole_for_who_takes_it():
    async with serving(stall_seconds=SOON) as fake, aiohttp.ClientSession() as session:
        body = {"prompt": "7 " * 400_000, "return_token_strs": True}
        async with session.post(f"{fake.url}/tokenize", json=body) as response:
            tokens = await response.json()
        assert len(tokens["token_strs"]) == tokens["count"] > 400_000


async def test_an_upgrade_to_something_else_is_an_ordinary_request():
    async with serving() as fake, connected(fake) as (reader, writer):
        head = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        writer.write(head + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n")
        assert (await answer(reader))[0] == 200


async def test_a_request_for_no_path_is_refused_like_any_other():
    async with serving(api_key="k") as fake, connected(fake) as (reader, writer):
        writer.write(b"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        status, body = await answer(reader)
        assert (status, body["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answered", [0, 1])
async def test_a_client_that_sent_requests_ahead_is_seen_to_leave(stream, answered):
    body = json.dumps({"prompt": "x", "stream": stream}).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    async with serving() as fake:
        async with connected(fake) as (_, writer):
            writer.write((f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body) * 3)
            await until(lambda: len(fake.engine.submitted) == 1)
            for number in range(answered):
                fake.engine.say(finished(fake.engine.submitted[number].request_id, [9]))
            await until(lambda: len(fake.engine.submitted) == answered + 1)
        await until(lambda: fake.engine.cancelled == [fake.engine.submitted[answered].request_id])
        await asyncio.sleep(0.05)
        assert len(fake.engine.submitted) == answered + 1

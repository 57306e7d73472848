"""Two hundred clients, of whom a third stop reading and a third leave: the others' blocks come as fast as ever."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from tests.serving.processes import Server, serve
from tests.serving.test_operations import scrape
from tests.serving.test_overload import memory

CLIENTS = 200
SECONDS = float(os.environ.get("UNMASK_CROWD_SECONDS", "20"))
BODY = {
    "prompt": "one two three",
    "max_tokens": 192,  # twelve blocks, each of four forwards
    "stream": True,
    "ignore_eos": True,
    "unmask": {"rule": "low_confidence", "steps": 4, "end_tokens": "never"},
}
STALLED = BODY | {"unmask": BODY["unmask"] | {"canvas": "frames"}}


@dataclass
class Crowd:
    """One phase: seconds between the blocks that readers got, and what the others did."""

    gaps: list[float] = field(default_factory=list)
    answers: int = 0
    stalled: int = 0
    dropped: int = 0


@asynccontextmanager
async def connection(url: str, body: dict, buffer: int | None = None) -> AsyncIterator[asyncio.StreamReader]:
    """The request on a socket of its own, which is reset in the end; its ``buffer`` is all that waits to be read."""
    host, port = url.removeprefix("http://").split(":")
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=sock, limit=buffer or 2**16)
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    try:
        yield reader
    finally:
        writer.transport.abort()


async def read_on(url: str, crowd: Crowd) -> None:
    """A client that reads its answers to their ends, one after the other."""
    while True:
        async with connection(url, BODY) as reader:
            last = None
            async for line in reader:
                if line.startswith(b'data: {"id"') and b'"text":""' not in line:
                    now = time.monotonic()
                    if last is not None:
                        crowd.gaps.append(now - last)
                    last = now
                elif line.startswith(b"data: [DONE]"):
                    crowd.answers += 1
                    break


async def stall(url: str, crowd: Crowd) -> None:
    """A client that takes the first bytes, then nothing for as long as all goes on."""
    async with connection(url, STALLED, buffer=4096) as reader:
        await reader.readuntil(b"data: ")
        crowd.stalled += 1
        await asyncio.Event().wait()


async def drop(url: str, crowd: Crowd) -> None:
    """A client that leaves after the first block, and comes again."""
    while True:
        async with connection(url, BODY) as reader:
            await reader.readuntil(b"data: ")
        crowd.dropped += 1


async def phase(url: str, kinds: list) -> Crowd:
    crowd = Crowd()
    tasks = [asyncio.create_task(kinds[number % len(kinds)](url, crowd)) for number in range(CLIENTS)]
    await asyncio.sleep(SECONDS)
    failed = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert not failed, failed
    return crowd


def open_files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_stalled_and_dropped_clients_do_not_slow_the_others():
    with serve("--max-waiting", "400", "--max-running", "16") as server:
        async with aiohttp.ClientSession(server.url) as http:
            await phase(server.url, [read_on])  # warm up
            files, sizes = open_files(server), memory(server)
            before = await phase(server.url, [read_on])
            mixed = await phase(server.url, [read_on, stall, drop])
            later = await phase(server.url, [read_on])
            async with asyncio.timeout(20):
                while (metrics := await scrape(http))["unmask_requests_running"] + metrics["unmask_requests_waiting"]:
                    await asyncio.sleep(0.1)
            assert metrics["unmask_kv_pages_in_use"] == 0
            assert open_files(server) <= files + 2
            assert all(after <= 1.1 * size + 2**24 for size, after in zip(sizes, memory(server), strict=True))
    usual = statistics.median(before.gaps + later.gaps)
    crowded = statistics.median(mixed.gaps)
    print(
        f"{before.answers}, {mixed.answers}, {later.answers} answers;",
        f"{mixed.stalled} stalled, {mixed.dropped} dropped",
    )
    print(f"seconds between blocks: {usual:.4f} usually, {crowded:.4f} beside the others, {crowded / usual - 1:+.1%}")
    assert mixed.stalled > CLIENTS / 6
    assert mixed.dropped > CLIENTS / 3
    if abs(statistics.median(before.gaps) / statistics.median(later.gaps) - 1) > 0.1:
        pytest.skip("this machine had other work")
    assert crowded <= 1.1 * usual

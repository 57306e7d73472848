"""Nobody waits for a neighbour, and whoever leaves is forgotten at once."""

from __future__ import annotations

import asyncio
import statistics
import time

from tests.serving.test_disconnect import send, until_running
from tests.serving.test_operations import scrape

LONG = {
    "prompt": "one two three",
    "max_tokens": 960,
    "unmask": {"rule": "low_confidence", "end_tokens": "never"},
}
SHORT = {
    "prompt": "What is 7 + 8?",
    "max_tokens": 4,
    "ignore_eos": True,
    "unmask": {"rule": "low_confidence", "block_length": 4},
}


async def timed(http, body) -> float:
    begun = time.perf_counter()
    async with http.post("/v1/completions", json=body) as response:
        answer = await response.json()
    assert response.status == 200
    assert answer["unmask"]["forwards"] == body["max_tokens"]
    return time.perf_counter() - begun


async def test_a_short_request_does_not_wait_for_a_long_one(http):
    """Four steps beside a request of hundreds: within three times what they take alone."""
    await timed(http, SHORT)
    alone = statistics.median([await timed(http, SHORT) for _ in range(9)])
    long = asyncio.create_task(timed(http, LONG))
    await until_running(http, 1)
    await asyncio.sleep(0.5)
    beside = [await timed(http, SHORT) for _ in range(9)]
    assert not long.done(), "the long request must outlast the short ones"
    await long
    assert statistics.median(beside) <= 3 * alone, (beside, alone)


async def test_two_hundred_dropped_streams_leave_nothing_behind(server, http):
    """Every socket is reset in the middle of a block; health answers all the while."""
    before = await scrape(http)
    health: list[float] = []

    async def probe():
        while True:
            begun = time.perf_counter()
            async with http.get("/health") as response:
                assert response.status == 200
            health.append(time.perf_counter() - begun)
            await asyncio.sleep(0.02)

    probing = asyncio.create_task(probe())

    async def drop(number: int):
        reader, writer = await send(server.url, "/v1/completions", LONG | {"stream": True})
        await reader.readuntil(b"data: ")
        await asyncio.sleep(0.01 * (number % 7))
        writer.transport.abort()

    for first in range(0, 200, 20):
        await asyncio.gather(*(drop(number) for number in range(first, first + 20)))
    after = await until_running(http, 0)
    probing.cancel()
    assert after["unmask_requests_waiting"] == 0
    assert after["unmask_kv_pages_in_use"] == 0
    assert after["unmask_disconnects_total"] - before["unmask_disconnects_total"] == 200
    assert statistics.median(health) < 0.05
    assert await timed(http, SHORT) < 5


async def test_health_answers_within_fifty_milliseconds_while_sixteen_requests_run(http):
    running = [asyncio.create_task(timed(http, LONG)) for _ in range(16)]
    await until_running(http, 16)
    took = []
    for _ in range(50):
        begun = time.perf_counter()
        async with http.get("/health") as response:
            assert response.status == 200
        took.append(time.perf_counter() - begun)
        await asyncio.sleep(0.02)
    assert not any(task.done() for task in running)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    assert sorted(took)[int(0.9 * len(took))] < 0.05, sorted(took)[-10:]

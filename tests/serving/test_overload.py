"""A real server under more load than it can bear: it refuses and cuts, by name, and is well again afterwards."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
import psutil
import pytest

from tests.serving.processes import Server, serve
from tests.serving.wire import events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SECONDS = float(os.environ.get("UNMASK_OVERLOAD_SECONDS", "60"))
COMPLETIONS = "/v1/completions"
SHORT = {
    "prompt": "What is 7 + 8?",
    "max_tokens": 32,
    "ignore_eos": True,
    "unmask": {"rule": "low_confidence", "block_length": 16},
}
BATCH = {
    "prompt": "one two three",
    "max_tokens": 64,
    "unmask": {"rule": "low_confidence", "block_length": 16, "end_tokens": "never", "priority": "batch"},
}


@dataclass
class Outcomes:
    """How requests ended, and what the ones that were answered took."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)


async def ask(session: aiohttp.ClientSession, body: dict) -> tuple[str, float]:
    """How a request ended: an error's code, or its finish; and the seconds that a refused client should wait."""
    async with session.post(COMPLETIONS, json=body) as response:
        if response.status != 200:
            assert 1 <= int(response.headers["Retry-After"]) <= 600
            return f"{response.status} {(await response.json())['error']['code']}", float(
                response.headers["Retry-After"]
            )
        if not body.get("stream"):
            answer = await response.json()
            assert answer["usage"]["completion_tokens"] <= body["max_tokens"]
            return answer["unmask"]["finish"], 0.0
        payload = await response.read()
    if b'"error"' in payload:
        return "stream queue_timeout" if b'"code":"queue_timeout"' in payload else payload.decode(), 0.0
    (last,) = [chunk for chunk in events(payload) if "unmask" in chunk]
    return last["unmask"]["finish"], 0.0


async def client(session: aiohttp.ClientSession, seed: int, until: float, outcomes: Outcomes) -> None:
    """Ask over and over, anything, as one of a few users; a refusal is waited out in part."""
    chance = random.Random(seed)
    while time.monotonic() < until:
        body = chance.choice([SHORT, BATCH]) | {"user": f"user{seed % 7}", "stream": chance.random() < 0.5}
        begun = time.monotonic()
        how, wait = await ask(session, body)
        outcomes.counts[how] += 1
        outcomes.seconds.append(time.monotonic() - begun)
        await asyncio.sleep(min(wait, 1.0 + chance.random()))


def memory(server: Server) -> list[int]:
    """Resident bytes of the server and its engine."""
    process = psutil.Process(server.process.pid)
    return [one.memory_info().rss for one in (process, *process.children())]


async def one_by_one(session: aiohttp.ClientSession, count: int) -> list[float]:
    """Seconds of ``count`` short requests, one after the other."""
    seconds = []
    for _ in range(count):
        begun = time.monotonic()
        assert (await ask(session, SHORT))[0] == "length"
        seconds.append(time.monotonic() - begun)
        await asyncio.sleep(0.01)
    return seconds


def p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


async def test_ten_times_the_capacity(capsys):
    """24 places, 240 clients that never tire."""
    outcomes = Outcomes()
    limits = ("--max-running", "8", "--max-waiting", "16", "--queue-timeout", "4", "--request-timeout", "6")
    with serve(*limits) as server:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(server.url, connector=connector) as session:
            await one_by_one(session, 5)
            before = statistics.median(await one_by_one(session, 30))
            until = time.monotonic() + SECONDS
            clients = [asyncio.create_task(client(session, seed, until, outcomes)) for seed in range(240)]
            await asyncio.sleep(SECONDS / 4)
            early = memory(server)
            await asyncio.gather(*clients)
            late = memory(server)
            await asyncio.sleep(1)
            after = statistics.median(await one_by_one(session, 30))
            async with session.get("/metrics") as response:
                metrics = await response.text()
        assert server.process.poll() is None
        assert not any("Traceback" in line for line in server.log), server.log
    with capsys.disabled():
        mib = [[round(size / 2**20) for size in sizes] for sizes in (early, late)]
        print(f"\n{dict(outcomes.counts)}; MiB {mib[0]} -> {mib[1]}; p50 {before * 1e3:.0f} -> {after * 1e3:.0f} ms")
    known = {"stop", "length", "timeout", "429 queue_full", "503 queue_timeout", "stream queue_timeout"}
    assert set(outcomes.counts) <= known
    assert outcomes.counts["429 queue_full"] > 0
    assert outcomes.counts["length"] > 0
    assert len(early) == len(late) == 2
    for at_first, at_last in zip(early, late, strict=True):
        assert at_last - at_first < 32 * 2**20
    assert after < 2 * before + 0.02
    for gauge in ("unmask_requests_running", "unmask_requests_waiting", "unmask_kv_pages_in_use"):
        assert f"{gauge} 0.0" in metrics


async def test_interactive_requests_hardly_notice_batch_ones(capsys):
    """Rounds with and without a saturated batch class, in turn, since other work on the machine comes and goes."""
    alone: list[float] = []
    beside: list[float] = []
    outcomes = Outcomes()
    with serve("--max-running", "16", "--max-waiting", "64") as server:
        async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(limit=0)) as session:
            await one_by_one(session, 10)
            for _ in range(4):
                alone += await one_by_one(session, 30)
                until = time.monotonic() + 3600
                batch = [asyncio.create_task(batch_client(session, until, outcomes)) for _ in range(48)]
                await saturated(session)
                beside += await one_by_one(session, 30)
                for task in batch:
                    task.cancel()
                await asyncio.gather(*batch, return_exceptions=True)
                await asyncio.sleep(0.5)
    with capsys.disabled():
        rows = [
            (name, statistics.median(all_) * 1e3, p95(all_) * 1e3)
            for name, all_ in (("alone", alone), ("beside", beside))
        ]
        told = "; ".join(f"{name} p50 {median:.0f} p95 {high:.0f} ms" for name, median, high in rows)
        print(f"\n{told}; batch answers {dict(outcomes.counts)}")
    assert outcomes.counts["length"] > 0, "the batch class gets on"
    assert p95(beside) <= 2 * p95(alone)


async def batch_client(session: aiohttp.ClientSession, until: float, outcomes: Outcomes) -> None:
    while time.monotonic() < until:
        outcomes.counts[(await ask(session, BATCH))[0]] += 1


async def saturated(session: aiohttp.ClientSession) -> None:
    """Wait until batch requests run in all the slots that they may have, and others wait for them."""
    async with asyncio.timeout(30):
        while True:
            async with session.get("/metrics") as response:
                text = await response.text()
            if "unmask_requests_running 12.0" in text:
                return
            await asyncio.sleep(0.05)

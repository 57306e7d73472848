"""A server under everything at once for a long time: sizes, rules, schemas, log-probabilities, streams, cancels.

Nothing leaks, nothing fails, and a sample of the answers is asked for again, alone: it is the same.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from dataclasses import dataclass, field

import aiohttp
import pytest

from tests.serving.processes import Server, serve
from tests.serving.test_operations import scrape
from tests.serving.test_overload import memory

SECONDS = float(os.environ.get("UNMASK_SOAK_SECONDS", "1200"))
CLIENTS = 20
SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["a", "b"]},
    {"type": "array", "items": {"enum": ["x", "y", "zz"]}, "minItems": 1, "maxItems": 3},
    {"type": "string", "maxLength": 8},
]
RULES = ["d2f", "threshold", "low_confidence", "factor", "dynamic", "entropy", "eb", "credit", "klass", "saber", "wino"]


def a_body(rng: random.Random) -> dict:
    """Any request that has one right answer: greedy, or drawn with a seed."""
    prompt = " ".join(rng.choice(["what", "is", "7", "+", "8", "sort", "the", "word", "tree", "?"]) for _ in range(9))
    options: dict = {"rule": rng.choice(RULES), "block_length": rng.choice([4, 8, 16, 32])}
    options |= {"early_exit": True} if rng.random() < 0.3 else {}
    body: dict = {"prompt": prompt * rng.choice([1, 1, 2, 12]), "max_tokens": rng.choice([1, 7, 24, 40, 120])}
    body |= {"temperature": 1.0, "seed": rng.randrange(99)} if rng.random() < 0.4 else {"temperature": 0.0}
    body |= {"top_p": 0.8} if rng.random() < 0.2 else {}
    body |= {"logprobs": rng.choice([0, 3])} if rng.random() < 0.3 else {}
    kind = rng.random()
    if kind < 0.1:
        options["regex"] = rng.choice(["[0-9]{1,5}", "(yes|no|maybe)", "[a-c]+x"])
        body["max_tokens"] = 40
    elif kind < 0.2:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": rng.choice(SCHEMAS)}}
        body["max_tokens"] = 120
    elif kind < 0.3 and options["rule"] != "wino":
        options["cfg_scale"] = 0.5
    if rng.random() < 0.2:
        options["priority"] = "batch"
    return body | {"unmask": options}


@dataclass
class Tally:
    """What happened, and the answers to be asked for again."""

    served: int = 0
    cancelled: int = 0
    refused: int = 0
    sample: list[tuple[dict, str]] = field(default_factory=list)
    sizes: list[tuple[float, int]] = field(default_factory=list)


async def ask(http: aiohttp.ClientSession, body: dict) -> str | None:
    """The answer's text; None if the server is full."""
    async with http.post("/v1/completions", json=body) as response:
        if response.status == 429:
            return None
        assert response.status == 200, (await response.text(), body)
        if not body.get("stream"):
            return (await response.json())["choices"][0]["text"]
        text = ""
        async for line in response.content:
            if line.startswith(b"data: {"):
                chunk = json.loads(line[6:])
                assert "error" not in chunk, (chunk, body)
                text += "".join(choice["text"] for choice in chunk["choices"])
        return text


async def client(http: aiohttp.ClientSession, seed: int, until: float, tally: Tally) -> None:
    rng = random.Random(seed)
    while time.monotonic() < until:
        body = a_body(rng)
        streamed = body | ({"stream": True} if rng.random() < 0.5 else {})
        if rng.random() < 0.15:
            try:
                await asyncio.wait_for(ask(http, streamed), rng.uniform(0.001, 0.3))
            except TimeoutError:
                tally.cancelled += 1
            continue
        text = await ask(http, streamed)
        if text is None:
            tally.refused += 1
            await asyncio.sleep(0.2)
            continue
        tally.served += 1
        if rng.random() < 0.1:
            tally.sample.append((body, text))


async def watch(http: aiohttp.ClientSession, server: Server, until: float, tally: Tally) -> None:
    while time.monotonic() < until:
        tally.sizes.append((time.monotonic(), sum(memory(server))))
        await asyncio.sleep(1)


async def soak(server: Server, seconds: float) -> Tally:
    tally, until = Tally(), time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(server.url, connector=connector, timeout=aiohttp.ClientTimeout(300)) as http:
        clients = [client(http, seed, until, tally) for seed in range(CLIENTS)]
        await asyncio.gather(watch(http, server, until, tally), *clients)
        for _ in range(100):
            gauges = await scrape(http)
            if gauges["unmask_requests_running"] == 0:
                break
            await asyncio.sleep(0.1)
        assert gauges["unmask_requests_running"] == gauges["unmask_requests_waiting"] == 0
        assert gauges["unmask_kv_pages_in_use"] == 0
        for body, text in tally.sample:
            assert await ask(http, body) == text, body
    return tally


@pytest.mark.slow
@pytest.mark.timeout(SECONDS * 2 + 300)
async def test_soak():
    """A third of the way in, memory has its size; it does not grow by more than a tenth from then on."""
    with serve("--max-running", "12", "--max-waiting", "24", "--kv-tokens", "2048", "--max-rows", "512") as server:
        tally = await soak(server, SECONDS)
        log = "".join(server.log)
    assert "Traceback" not in log
    begun, ended = tally.sizes[0][0], tally.sizes[-1][0]
    early = max(size for at, size in tally.sizes if at < begun + (ended - begun) / 3)
    print(
        tally.served, "served", tally.cancelled, "cancelled", tally.refused, "refused", len(tally.sample), "asked again"
    )
    print("memory", early, "then", tally.sizes[-1][1])
    assert tally.sizes[-1][1] < early * 1.1
    assert tally.served > SECONDS
    assert tally.cancelled > 10

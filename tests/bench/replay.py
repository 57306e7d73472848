"""A trace replayed on a live server, by a client that waits for nobody."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import aiohttp


@dataclass
class Answer:
    """What a client saw, in seconds, and what the server reported."""

    total: float
    first_block: float
    prompt_tokens: int
    output_tokens: int
    forwards: int


async def ask(http: aiohttp.ClientSession, prompt: str, **unmask) -> Answer:
    begun = time.monotonic()
    body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0, "unmask": unmask}
    async with http.post("/v1/chat/completions", json=body) as response:
        answer = await response.json()
    total = time.monotonic() - begun
    assert response.status == 200, answer
    report, usage = answer["unmask"], answer["usage"]
    beyond = total - report["total_ms"] / 1000
    return Answer(
        total, report["ttfb_ms"] / 1000 + beyond, usage["prompt_tokens"], usage["completion_tokens"], report["forwards"]
    )


async def replay(url: str, prompts: list[str], times: list[float], **unmask) -> list[Answer]:
    """Send each prompt at its time; every request has a connection of its own if it needs one."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector, timeout=aiohttp.ClientTimeout(600)) as http:
        begun = time.monotonic()

        async def at(moment: float, prompt: str) -> Answer:
            await asyncio.sleep(begun + moment - time.monotonic())
            return await ask(http, prompt, **unmask)

        return await asyncio.gather(*(at(*pair) for pair in zip(times, prompts, strict=True)))


async def ask_one_by_one(url: str, prompts: list[str], **unmask) -> list[Answer]:
    async with aiohttp.ClientSession(url) as http:
        return [await ask(http, prompt, **unmask) for prompt in prompts]

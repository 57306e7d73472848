"""A conversation goes on after its model was unloaded and loaded again: with a session store and without, in turns.

    python -m benchmarks.session_store [--rounds 3] [--facts 60]

Needs llama.cpp and the model of ``python -m tests.fetch_models``, or the one at UNMASK_SMOLLM2, in two servers. In
each round each of them is told ``--facts`` facts, of some 17 tokens each, loses the model, loads it, and goes on. Times
are in seconds; of the text, from the request until there is some.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp
from tests.serving.processes import serve

from benchmarks.gateway_routes import MODEL

Talk = list[dict[str, str]]


def config(folder: Path, name: str, **more: Any) -> str:
    """The file of a server with the one model, which computes with one thread."""
    path = folder / f"{name}.yaml"
    smol = {"path": str(MODEL), "threads": 1, "context": 4096, "canary": False}
    path.write_text(json.dumps({"models": {"smol": smol}, "log_dir": str(folder / name), **more}))
    return str(path)


async def chat(http: aiohttp.ClientSession, url: str, talk: Talk) -> tuple[str, float, dict[str, Any]]:
    """The answer, when its text began, and its usage."""
    usage = {"include_usage": True}
    body = {"messages": talk, "temperature": 0, "max_tokens": 8, "stream": True, "stream_options": usage}
    begun, first, text, counted = time.perf_counter(), 0.0, "", {}
    async with http.post(f"{url}/v1/chat/completions", json=body) as response:
        async for line in response.content:
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            counted = chunk.get("usage") or counted
            if piece := "".join(choice["delta"].get("content") or "" for choice in chunk["choices"]):
                first = first or time.perf_counter() - begun
                text += piece
    return text, first, counted


async def operate(http: aiohttp.ClientSession, url: str, verb: str) -> float:
    """How long it took to "stop" or "load" the model."""
    begun = time.perf_counter()
    async with http.post(f"{url}/unmask/models/smol/{verb}") as response:
        assert response.status == 200, await response.text()
    return time.perf_counter() - begun


async def measure(urls: dict[str, str], rounds: int, facts: int) -> None:
    """Print a line for each server in each round."""
    print(f"{'store':<8} prompt  known   stop   load   text  answer")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as http:
        for number in range(rounds):
            told = " ".join(f"Fact {i}: the number {i} is followed by {i + 1}." for i in range(facts))
            talk = [{"role": "user", "content": f"Round {number}. {told}"}]
            for name, url in urls.items():
                text, _, _ = await chat(http, url, talk)
                stop, load = await operate(http, url, "stop"), await operate(http, url, "load")
                more = [*talk, {"role": "assistant", "content": text}, {"role": "user", "content": "Go on."}]
                text, first, usage = await chat(http, url, more)
                known = usage["prompt_tokens_details"]["cached_tokens"]
                counts = f"{usage['prompt_tokens']:>6} {known:>6}"
                print(f"{name:<8} {counts} {stop:>6.2f} {load:>6.2f} {first:>6.2f}  {text!r}", flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--facts", type=int, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_DATA_HOME"] = home  # where the servers keep their files
        folder = Path(home)
        with (
            serve("--config", config(folder, "with", session_store="1GiB")) as one,
            serve("--config", config(folder, "without")) as other,
        ):
            asyncio.run(measure({"with": one.url, "without": other.url}, options.rounds, options.facts))


if __name__ == "__main__":
    main()

"""What the gateway adds to llama.cpp: the same model, asked directly and through ``unmask serve``, in turns.

    python -m benchmarks.gateway_overhead [--rounds 20] [--firsts 200] [--streams 1,2,4] [--tokens 48] [--threads 0]
        [--part instant,first,rate] [--markdown]

Needs llama.cpp and the model of ``python -m tests.fetch_models``, or the one at UNMASK_SMOLLM2. Both ways lead to one
and the same process of llama.cpp, and every round goes all ways, in an order that changes, so that what slows the
machine down for a while hits all alike. Intervals hold 95 % of 2,000 draws of as many rounds (bootstrap).

``instant``: an upstream that costs nothing, for the gateway's own processor time for a chunk, in each dialect; chunks
that come all at once, and one by one. ``first``: until an answer's first byte and its first text, prompts cached alike;
the gateway's first byte need not wait for the model's. ``rate``: tokens a second with several streams at once, beside a
gateway that has nothing to do if they are asked for directly. ``remote``: through a gateway that has llama.cpp as an
address.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.gateway_routes import MODEL, Route, ask, client, cpu_seconds, instant_routes, model_routes, together

CHAT = "/v1/chat/completions"
DRAWS = 2000
TOPICS = ("a lighthouse", "a clock", "the sea", "a violin", "the moon", "a bakery", "a train", "an old map")


def chat(text: str, tokens: int) -> dict:
    """A conversation to be answered in at most ``tokens``, streamed, with its usage."""
    messages = [{"role": "user", "content": text}]
    usage = {"include_usage": True}
    return {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True, "stream_options": usage}


def dialects(chunks: int) -> dict[str, tuple[str, dict]]:
    """How each dialect asks for an answer of so many chunks."""
    messages = [{"role": "user", "content": "hi"}]
    usage = {"include_usage": True}
    texts = {"prompt": "hi", "max_tokens": chunks, "stream": True, "stream_options": usage}
    return {
        "chat completions": (CHAT, chat("hi", chunks)),
        "completions": ("/v1/completions", texts),
        "responses": ("/v1/responses", {"input": "hi", "max_output_tokens": chunks, "stream": True, "store": False}),
        "messages": ("/v1/messages", {"messages": messages, "max_tokens": chunks, "stream": True}),
        "ollama": ("/api/chat", {"messages": messages, "options": {"num_predict": chunks}}),
    }


def interval(rounds: Sequence[object], statistic: Callable[[list], float]) -> list[float]:
    """Between which values ``statistic`` of the rounds is, with a confidence of 95 %."""
    chance = random.Random(0)
    drawn = sorted(statistic(chance.choices(rounds, k=len(rounds))) for _ in range(DRAWS))
    return [drawn[int(DRAWS * 0.025)], drawn[int(DRAWS * 0.975)]]


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of ``values`` do not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def measure_instant(rounds: int, chunks: int) -> list[dict]:
    """The gateway's own cost of a chunk and of a request, all rounds together: the system counts in steps of 10 ms."""
    rows = []
    with instant_routes() as (direct, gateway):
        for (dialect, (path, body)), (_, short) in zip(dialects(chunks).items(), dialects(1).values(), strict=True):
            row: dict = {"dialect": dialect}
            for name in ("at-once", "paced"):
                cost = _cost(gateway.asking(name), path, [body] * rounds)
                row[f"us a chunk, {name}"] = round(cost / rounds / chunks * 1e6, 1)
            requests = 20 * rounds
            cost = _cost(gateway, path, [short] * requests)
            row["us a request of one chunk"] = round(cost / requests * 1e6)
            rows.append(row)
        rows += measure_first([direct, gateway], 20 * rounds, "instant")
    return rows


def _cost(route: Route, path: str, bodies: list[dict]) -> float:
    """Seconds that the gateway computes for answers one after the other; the first one only warms it up."""
    assert route.gateway is not None
    asyncio.run(together(route, path, bodies[:1]))
    before = cpu_seconds(route.gateway)
    asyncio.run(_in_turn(route, path, bodies))
    return cpu_seconds(route.gateway) - before


async def _in_turn(route: Route, path: str, bodies: list[dict]) -> None:
    async with client() as session:
        for body in bodies:
            await ask(session, route, path, body)


def measure_first(routes: list[Route], rounds: int, upstream: str) -> list[dict]:
    """Milliseconds to the first byte and the first text of a short answer, whose prompt is cached."""
    times = asyncio.run(_firsts(routes, rounds))
    rows = []
    for kind in ("first_byte", "first_text"):
        told = [{route.name: getattr(answers[route.name], kind) * 1000 for route in routes} for answers in times]
        for route in routes[1:]:
            row: dict = {"until": kind.replace("_", " "), "upstream": upstream, "way": route.name}
            for name, share in (("median", 0.5), ("p95", 0.95)):
                added = _added(route.name, share)
                direct = percentile([one["direct"] for one in told], share)
                bounds = interval(told, added)
                row[f"{name}, ms"] = round(direct + added(told), 2)
                row[f"{name} added, ms"] = round(added(told), 2)
                row[f"{name} between"] = [round(bound, 2) for bound in bounds]
            rows.append(row)
    return rows


def _added(name: str, share: float) -> Callable[[list], float]:
    return lambda rounds: (
        percentile([one[name] for one in rounds], share) - percentile([one["direct"] for one in rounds], share)
    )


async def _firsts(routes: list[Route], rounds: int) -> list[dict]:
    """A connection for each request, on every way."""
    body, told = chat("Tell me a story about the sea.", 2), []
    async with client() as session:
        for number in range(-5, rounds):
            answers = {route.name: await ask(session, route, CHAT, body) for route in _order(routes, number)}
            if number >= 0:
                told.append(answers)
    return told


def _order(routes: list[Route], number: int) -> list[Route]:
    """All routes, another one first in each round, forwards and backwards."""
    at = number % len(routes)
    return (routes[at:] + routes[:at])[:: 1 if number // len(routes) % 2 else -1]


@dataclass(slots=True)
class Spent:
    """What a way cost, all rounds together: tokens, and seconds of the gateway's and of llama.cpp's processors."""

    tokens: int = 0
    gateway: float = 0.0
    engine: float = 0.0


def measure_rate(routes: list[Route], child: psutil.Process, streams: int, rounds: int, tokens: int) -> list[dict]:
    """Tokens a second of ``streams`` answers at once, and what of them is left on each way."""
    bodies = [chat(f"Tell me a long story about {TOPICS[number % len(TOPICS)]}.", tokens) for number in range(streams)]
    spent = {route.name: Spent() for route in routes}
    for route in routes:
        asyncio.run(together(route, CHAT, bodies))
    told = [
        {route.name: _round(route, child, bodies, spent[route.name]) for route in _order(routes, number)}
        for number in range(rounds)
    ]
    return [_rate_row(route, streams, told, spent[route.name]) for route in routes]


def _round(route: Route, child: psutil.Process, bodies: list[dict], spent: Spent) -> float:
    """Tokens a second."""
    engine, gateway = cpu_seconds(child), cpu_seconds(route.gateway) if route.gateway else 0.0
    answers, seconds = asyncio.run(together(route, CHAT, bodies))
    count = sum(answer.tokens for answer in answers)
    spent.tokens += count
    spent.engine += cpu_seconds(child) - engine
    spent.gateway += cpu_seconds(route.gateway) - gateway if route.gateway else 0.0
    return count / seconds


def _rate_row(route: Route, streams: int, told: list[dict[str, float]], spent: Spent) -> dict:
    row: dict = {"streams": streams, "way": route.name}
    row["tokens/s"] = round(statistics.median(one[route.name] for one in told), 1)
    row["llama.cpp, CPU s per 1,000 tokens"] = round(spent.engine / spent.tokens * 1000, 2)
    if route.gateway:
        ratio = _ratio(route.name)
        row["gateway, CPU s per 1,000 tokens"] = round(spent.gateway / spent.tokens * 1000, 3)
        row["of direct"] = round(ratio(told), 4)
        row["between"] = [round(bound, 4) for bound in interval(told, ratio)]
    return row


def _ratio(name: str) -> Callable[[list], float]:
    """Of pairs of neighbours in time: the machine's drift is in both."""
    return lambda rounds: statistics.median(one[name] / one["direct"] for one in rounds)


def measure_idle(routes: list[Route], child: psutil.Process, seconds: float = 3.0) -> list[dict]:
    """Threads, and the processor time of a second without requests."""
    processes = {"llama.cpp": child} | {route.name: route.gateway for route in routes if route.gateway}
    before = {name: cpu_seconds(process) for name, process in processes.items()}
    time.sleep(seconds)
    return [
        {
            "process": name,
            "threads": process.num_threads(),
            "idle, ms of CPU a second": round((cpu_seconds(process) - before[name]) / seconds * 1000, 1),
        }
        for name, process in processes.items()
    ]


def measure(arguments: argparse.Namespace) -> Iterator[dict]:
    """All parts that are asked for, each result as soon as it is there."""
    if "instant" in arguments.part:
        yield from measure_instant(max(1, arguments.rounds // 5), arguments.chunks)
    if {"first", "rate"}.isdisjoint(arguments.part):
        return
    with model_routes(arguments.model, max(arguments.streams), arguments.threads) as (routes, child):
        asyncio.run(_firsts(routes, 1))
        yield from measure_idle(routes, child)
        if "first" in arguments.part:
            yield from measure_first(routes, arguments.firsts, "llama.cpp")
        if "rate" in arguments.part:
            for streams in arguments.streams:
                yield from measure_rate(routes, child, streams, arguments.rounds, arguments.tokens)


def markdown(rows: list[dict]) -> str:
    """Rows as tables, one for each set of columns."""
    lines: list[str] = []
    heads: list[str] = []
    for row in rows:
        if not set(row) <= set(heads):
            heads = max((list(other) for other in rows if set(row) <= set(other)), key=len)
            lines += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        lines.append(f"| {' | '.join(_cell(row.get(head, '')) for head in heads)} |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    return " to ".join(map(str, value)) if isinstance(value, list) else str(value)


def parser() -> argparse.ArgumentParser:
    """What may be asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--part", type=lambda text: text.split(","), default=["instant", "first", "rate"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--firsts", type=int, default=200)
    parser.add_argument("--streams", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--chunks", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--markdown", action="store_true")
    return parser


def main() -> None:
    """Print one JSON line a result, or tables."""
    arguments = parser().parse_args()
    if arguments.markdown:
        print(markdown(list(measure(arguments))))
        return
    for row in measure(arguments):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()

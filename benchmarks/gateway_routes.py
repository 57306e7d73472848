"""Ways to one and the same model: directly, and through the gateway; each asked in the same way.

The processes are real: ``unmask serve``, the llama.cpp child that it starts, and an upstream that costs nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

ROOT = Path(__file__).parents[1]
MODEL = Path(os.environ.get("UNMASK_SMOLLM2", ROOT / ".models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
_KEY = "LLAMA_API_KEY"
_LISTENS = re.compile(r" on (http://\S+)$", re.MULTILINE)
_TEXT = re.compile(rb'"(?:content|text|delta)": ?"[^"]')
_USED = re.compile(rb'"(?:completion_tokens|output_tokens|eval_count)": ?(\d+)')


@dataclass(frozen=True, slots=True)
class Route:
    """Where to ask for a model; ``gateway`` is the process in between, if there is one."""

    name: str
    url: str
    model: str
    key: str = ""
    gateway: psutil.Process | None = None

    def asking(self, model: str) -> Route:
        """The same way to another model."""
        return Route(self.name, self.url, model, self.key, self.gateway)


@dataclass(frozen=True, slots=True)
class Timed:
    """One streamed answer: seconds to its first byte, to its first text, and to its end; and its tokens."""

    first_byte: float
    first_text: float
    total: float
    tokens: int


@contextmanager
def running(*command: str, **environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """A process of ours, once it has said where it listens."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("UNMASK_")}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as out:
            words = [sys.executable, "-m", *command]
            process = subprocess.Popen(words, stdout=out, stderr=out, env=own | environment, cwd=ROOT)
        try:
            while not (found := _LISTENS.search(log.read_text(errors="replace"))):
                if process.poll() is not None:
                    raise SystemExit(f"{' '.join(command)} did not start:\n{log.read_text(errors='replace')}")
                time.sleep(0.05)
            yield found.group(1), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def serve(models: dict[str, dict], **environment: str) -> Iterator[tuple[str, psutil.Process]]:
    """``unmask serve`` for what a configuration says; JSON is YAML too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "unmask.yaml")
        path.write_text(json.dumps({"models": models, "log_dir": folder}))
        options = ("--config", str(path), "--port", "0", "--device", "cpu", "--no-access-log")
        with running("unmask", "serve", *options, **environment) as started:
            yield started


@contextmanager
def instant_routes() -> Iterator[tuple[Route, Route]]:
    """To the upstream that costs nothing, directly and through the gateway."""
    with running("benchmarks.instant_upstream") as (url, _):
        models = {name: {"url": f"{url}/v1", "model": name} for name in ("at-once", "paced")}
        with serve(models) as (gateway, process):
            yield Route("direct", url, "at-once"), Route("gateway", gateway, "at-once", gateway=process)


@contextmanager
def model_routes(model: Path, slots: int, threads: int) -> Iterator[tuple[list[Route], psutil.Process]]:
    """To ``model``, and its llama.cpp process: directly; through the gateway whose child that is; and through another
    one, to which it is an address like any other.
    """
    own = {"path": str(model), "slots": slots, "threads": threads, "context": 1024}
    with ExitStack() as held:
        url, gateway = held.enter_context(serve({"model": own}))
        child, direct = _llama_cpp(gateway)
        remote = {"url": f"{direct.url}/v1", "model": "model", "api_key_env": _KEY}
        other_url, other = held.enter_context(serve({"model": remote}, **{_KEY: direct.key}))
        ways = [Route("gateway", url, "model", gateway=gateway), Route("remote", other_url, "model", gateway=other)]
        yield [direct, *ways], child


def _llama_cpp(gateway: psutil.Process) -> tuple[psutil.Process, Route]:
    """The child of ``gateway`` and the way to it, with its secret, which its user may read."""
    for process in gateway.children(recursive=True):
        for one in process.net_connections("inet"):
            if one.status == psutil.CONN_LISTEN:
                url = f"http://127.0.0.1:{one.laddr.port}"
                return process, Route("direct", url, "model", process.environ()[_KEY])
    raise SystemExit("The gateway has no llama.cpp child that listens.")


def cpu_seconds(process: psutil.Process) -> float:
    """What ``process`` has computed so far."""
    times = process.cpu_times()
    return times.user + times.system


async def ask(session: aiohttp.ClientSession, route: Route, path: str, body: dict) -> Timed:
    """One answer, to its end. The client does as little as it can: text is looked for in what came only until found."""
    headers = {"Authorization": f"Bearer {route.key}"} if route.key else {}
    begun, first_byte, first_text, came = time.perf_counter(), 0.0, 0.0, []
    async with session.post(route.url + path, json={"model": route.model} | body, headers=headers) as response:
        async for piece in response.content.iter_any():
            first_byte = first_byte or time.perf_counter() - begun
            came.append(piece)
            if not first_text and _TEXT.search(piece):
                first_text = time.perf_counter() - begun
    answer = b"".join(came)
    used = _USED.findall(answer)
    if response.status != 200 or not used:
        raise RuntimeError(f"{route.name}: {response.status} {answer[-500:]!r}")
    return Timed(first_byte, first_text, time.perf_counter() - begun, int(used[-1]))


def client() -> aiohttp.ClientSession:
    """One that makes a connection for each request, to whomever."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=600))


async def together(route: Route, path: str, bodies: list[dict]) -> tuple[list[Timed], float]:
    """All of ``bodies`` at once, and the seconds until all are answered."""
    async with client() as session:
        begun = time.perf_counter()
        answers = await asyncio.gather(*(ask(session, route, path, body) for body in bodies))
        return answers, time.perf_counter() - begun

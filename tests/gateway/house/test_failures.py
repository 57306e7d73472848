"""What fails behind one model is told to those who asked for it, in their dialect, and goes past all others."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import asynccontextmanager

import aiohttp
import psutil
import pytest

from tests.gateway.house.asking import DIALECTS, Told, ask
from tests.gateway.house.family import family, of_llama_cpp, running
from tests.gateway.house.files import write_config
from tests.serving.processes import Server, serve

LONG = "Once upon a time, a fox and a crow"
TOKENS = 600  # of an answer to it
PROMPT = "What is 7 + 8?"


@pytest.fixture(scope="module")
def server(files, far, llama, tmp_path_factory):
    models = {
        "smol": {"path": files["smol"], "threads": 1, "context": 1024, "slots": 6, "stall_timeout": 4, **llama},
        "llada": {"path": files["llada"]},
        "far": {"url": far, "model": "moe"},
    }
    with serve("--config", str(write_config(tmp_path_factory.mktemp("house") / "models.yaml", models))) as server:
        yield server


@asynccontextmanager
async def neighbours(session: aiohttp.ClientSession, server: Server):
    """Streams on the other models, which never notice what is done meanwhile."""

    async def stream(model: str):
        return await ask(session, server.url, "chat", model, PROMPT, 48, stream=True)

    alone = [await stream(model) for model in ("llada", "far")]
    assert all(told.complete and told.text for told in alone), alone
    running = [asyncio.create_task(stream(model)) for model in ("llada", "far") for _ in range(2)]
    yield
    told = [await task for task in running]
    assert [one.text.encode() for one in told] == [alone[0].text.encode()] * 2 + [alone[1].text.encode()] * 2
    assert all(one.complete for one in told)


async def under_way(session, server, dialects):
    """A stream of the model on llama.cpp in each dialect, all of which have begun."""
    begun = {dialect: asyncio.Event() for dialect in dialects}
    tasks = [
        asyncio.create_task(
            ask(
                session,
                server.url,
                dialect,
                "smol",
                LONG,
                TOKENS,
                stream=True,
                on_text=lambda _, d=dialect: begun[d].set(),
            )
        )
        for dialect in dialects
    ]
    for dialect, task in zip(dialects, tasks, strict=True):
        waiting = asyncio.create_task(begun[dialect].wait())
        await asyncio.wait([waiting, task], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert waiting.done(), (dialect, task.done() and task.result(), server.log[-20:])
    assert [task.result() for task in tasks if task.done()] == []
    return tasks


async def test_a_child_that_is_killed(server, session):
    before = await ask(session, server.url, "chat", "smol", PROMPT)
    async with neighbours(session, server):
        streams = await under_way(session, server, DIALECTS)
        (child,) = of_llama_cpp(server)
        child.kill()
        for dialect, told in zip(DIALECTS, await asyncio.gather(*streams), strict=True):
            assert (told.status, told.code, told.complete) == (200, "engine_crashed", False), (dialect, told)
            assert "signal 9" in told.message, (dialect, told)
            assert told.text
    assert await ask(session, server.url, "chat", "smol", PROMPT) == before


async def test_a_child_that_hangs(server, session):
    before = await ask(session, server.url, "chat", "smol", PROMPT)
    async with neighbours(session, server):
        streams = await under_way(session, server, ("chat", "messages", "api/chat"))
        (child,) = of_llama_cpp(server)
        child.send_signal(signal.SIGSTOP)
        for told in await asyncio.gather(*streams):
            assert (told.code, told.complete) == ("engine_stalled", False), told
            assert "4 seconds" in told.message, told
    assert await ask(session, server.url, "chat", "smol", PROMPT) == before
    assert not child.is_running(), "it was started again"


async def busy(session: aiohttp.ClientSession, child: psutil.Process) -> int:
    """How many requests the child works on, as it tells itself."""
    words = child.cmdline()
    key = child.environ()["LLAMA_API_KEY"]
    url = f"http://127.0.0.1:{words[words.index('--port') + 1]}/slots"
    async with session.get(url, headers={"authorization": f"Bearer {key}"}) as response:
        return sum(slot["is_processing"] for slot in await response.json())


async def calm(session: aiohttp.ClientSession, server: Server) -> psutil.Process:
    """The child, loaded, when nobody asks it anything any more: its canary has its answers."""
    await ask(session, server.url, "chat", "smol", PROMPT, 1)
    (child,) = of_llama_cpp(server)
    async with asyncio.timeout(90):
        while await canary(session, server) is None or await busy(session, child):
            await asyncio.sleep(0.05)
    return child


async def canary(session: aiohttp.ClientSession, server: Server) -> dict | None:
    async with session.get(f"{server.url}/v1/models/smol") as response:
        return (await response.json())["unmask"].get("canary")


class Pace:
    """How fast a stream comes just now, on whatever machine: ``known`` once it has sent a few pieces of its text."""

    PIECES = 12

    def __init__(self) -> None:
        self.known = asyncio.Event()
        self.rest = 0.0  # seconds that the whole answer would take from here
        self._begun = 0.0

    def heard(self, told: Told) -> None:
        self._begun = self._begun or time.monotonic()
        if told.frames >= self.PIECES and not self.known.is_set():
            each = (time.monotonic() - self._begun) / (told.frames - 1)
            self.rest = each * (TOKENS - told.frames)
            self.known.set()


def streaming(session: aiohttp.ClientSession, server: Server, dialect: str, pace: Pace) -> asyncio.Task[Told]:
    told = ask(session, server.url, dialect, "smol", LONG, TOKENS, stream=True, on_text=pace.heard)
    return asyncio.create_task(told)


async def left_alone(session: aiohttp.ClientSession, child: psutil.Process, rest: float, others: int = 0) -> None:
    """The child soon works on nothing but ``others``: far sooner than after the ``rest`` of what nobody wants."""
    left = time.monotonic()
    while await busy(session, child) > others:
        assert time.monotonic() - left < rest / 4, "it goes on"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "api/generate"])
async def test_a_client_that_leaves(server, session, dialect):
    child, pace = await calm(session, server), Pace()
    stream = streaming(session, server, dialect, pace)
    await asyncio.wait_for(pace.known.wait(), 60)
    assert await busy(session, child) == 1
    stream.cancel()
    await left_alone(session, child, pace.rest)


async def test_a_client_that_leaves_while_it_waits_for_a_whole_answer(server, session):
    child, pace = await calm(session, server), Pace()
    stream = streaming(session, server, "chat", pace)
    await asyncio.wait_for(pace.known.wait(), 60)
    whole = asyncio.create_task(ask(session, server.url, "messages", "smol", LONG, TOKENS))
    while await busy(session, child) < 2:
        assert not stream.done()
        await asyncio.sleep(0.05)
    whole.cancel()
    await left_alone(session, child, pace.rest, others=1)
    assert not stream.done(), "it is the whole answer that ended"
    stream.cancel()


async def test_a_crowd_that_leaves(server, session):
    """More than the child works on at once: those that wait are never sent to it, and the next one need not wait."""
    child, paces = await calm(session, server), [Pace() for _ in range(24)]
    streams = [streaming(session, server, "chat", pace) for pace in paces]
    async with asyncio.timeout(120):
        while await busy(session, child) < 6 or not any(pace.known.is_set() for pace in paces):
            await asyncio.sleep(0.02)
    rest = max(pace.rest for pace in paces)
    for stream in streams:
        stream.cancel()
    left = time.monotonic()
    await left_alone(session, child, rest)
    assert (await ask(session, server.url, "chat", "smol", PROMPT)).complete
    assert time.monotonic() - left < rest / 2


async def test_a_gateway_that_is_killed(server, session):
    """The last one here: the server is gone."""
    await under_way(session, server, ("chat", "api/chat"))
    processes = family(server)
    assert len(of_llama_cpp(server)) == 1
    server.process.send_signal(signal.SIGKILL)
    assert running(processes, 5) == []

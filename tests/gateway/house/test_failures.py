"""What fails behind one model is told to those who asked for it, in their dialect, and goes past all others."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import asynccontextmanager

import aiohttp
import psutil
import pytest

from tests.gateway.house.asking import DIALECTS, ask
from tests.gateway.house.family import family, of_llama_cpp, running
from tests.gateway.house.files import write_config
from tests.serving.processes import Server, serve

LONG = "Once upon a time, a fox and a crow"
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
                600,
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


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "api/generate"])
async def test_a_client_that_leaves(server, session, dialect):
    (stream,) = await under_way(session, server, [dialect])
    (child,) = of_llama_cpp(server)
    assert await busy(session, child) == 1
    stream.cancel()
    left = time.monotonic()
    while await busy(session, child):
        assert time.monotonic() - left < 2, "it goes on"
        await asyncio.sleep(0.01)
    print(dialect, time.monotonic() - left)


async def test_a_client_that_leaves_while_it_waits_for_a_whole_answer(server, session):
    (stream,) = await under_way(session, server, ["chat"])
    (child,) = of_llama_cpp(server)
    whole = asyncio.create_task(ask(session, server.url, "messages", "smol", LONG, 600))
    while await busy(session, child) < 2:
        await asyncio.sleep(0.05)
    whole.cancel()
    left = time.monotonic()
    while await busy(session, child) > 1:
        assert time.monotonic() - left < 2, "it goes on"
        await asyncio.sleep(0.01)
    stream.cancel()


async def test_a_crowd_that_leaves(server, session):
    """More than the child works on at once: those that wait are never sent to it, and the next one need not wait."""
    begun = asyncio.Event()
    streams = [
        asyncio.create_task(
            ask(session, server.url, "chat", "smol", LONG, 600, stream=True, on_text=lambda _: begun.set())
        )
        for _ in range(24)
    ]
    await asyncio.wait_for(begun.wait(), 60)
    (child,) = of_llama_cpp(server)
    async with asyncio.timeout(20):
        while await busy(session, child) < 6:
            await asyncio.sleep(0.02)
    for stream in streams:
        stream.cancel()
    left = time.monotonic()
    while await busy(session, child):
        assert time.monotonic() - left < 2, "it goes on"
        await asyncio.sleep(0.01)
    print("idle after", time.monotonic() - left)
    assert (await ask(session, server.url, "chat", "smol", PROMPT)).complete
    assert time.monotonic() - left < 10


async def test_a_gateway_that_is_killed(server, session):
    """The last one here: the server is gone."""
    await under_way(session, server, ("chat", "api/chat"))
    processes = family(server)
    assert len(of_llama_cpp(server)) == 1
    server.process.send_signal(signal.SIGKILL)
    assert running(processes, 5) == []

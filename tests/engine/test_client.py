"""Both twins of the engine client: a process of its own, and a thread of this one."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing

import pytest

from tests.engines import generate, make_loop
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.thread import ThreadEngine
from unmask.errors import CheckpointNotFoundError, ContextLengthError, EngineUnavailableError
from unmask.params import GenerationParams, resolve

PROMPT = [1, *range(30, 50), 3]
OPTIONS = EngineOptions(model=EMBEDDED_MODEL, device="cpu", threads=1, kv_tokens=20_000)


@pytest.fixture(params=["process", "thread"])
async def engine(request):
    if request.param == "process":
        engine = await ProcessEngine.launch(OPTIONS)
    else:
        engine = ThreadEngine(make_loop(EMBEDDED_MODEL, kv_tokens=20_000))
    yield engine
    await engine.close()
    assert not engine.alive


async def collect(engine, prompt=PROMPT, **params):
    """Ids of one request."""
    resolved = resolve(GenerationParams(**params), engine.model, len(prompt))
    ids = []
    async for event in engine.generate(prompt, resolved):
        ids += event.token_ids
    return ids


async def until(condition, seconds=5.0):
    for _ in range(int(seconds * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen in time")


async def test_the_same_tokens_as_the_bare_loop(engine):
    wanted = {n: generate(make_loop(EMBEDDED_MODEL), PROMPT, max_tokens=n, ignore_eos=True).ids for n in (1, 20, 70)}
    answers = await asyncio.gather(*(collect(engine, max_tokens=n, ignore_eos=True) for n in wanted))
    assert answers == list(wanted.values())
    await until(lambda: engine.stats.running == 0)
    assert engine.stats.pages_in_use == 0


async def test_leaving_early_cancels_within_a_step(engine):
    params = resolve(
        GenerationParams(max_tokens=900, ignore_eos=True, rule="low_confidence"), engine.model, len(PROMPT)
    )
    async with aclosing(engine.generate(PROMPT, params)) as events:
        async for _ in events:
            break
    await until(lambda: engine.stats.running == 0 and engine.stats.pages_in_use == 0)
    assert engine.stats.tokens_committed < 900


async def test_a_cancelled_task_frees_its_request(engine):
    tasks = [asyncio.create_task(collect(engine, max_tokens=900, ignore_eos=True, threshold=1.0)) for _ in range(5)]
    await until(lambda: engine.stats.running == 5)
    for task in tasks[:4]:
        task.cancel()
    await until(lambda: engine.stats.running == 1)
    tasks[4].cancel()
    await until(lambda: engine.stats.pages_in_use == 0)


async def test_the_engine_refuses_what_it_cannot_hold():
    engine = ThreadEngine(make_loop(EMBEDDED_MODEL, kv_tokens=64))
    with pytest.raises(ContextLengthError):
        await collect(engine, max_tokens=500)
    assert len(await collect(engine, max_tokens=5, ignore_eos=True)) == 5
    await engine.close()


async def test_frames_show_the_whole_canvas(engine):
    params = resolve(GenerationParams(max_tokens=32, ignore_eos=True, frames=True), engine.model, len(PROMPT))
    events = [event async for event in engine.generate(PROMPT, params)]
    frames = [event.frame for event in events if event.frame is not None]
    assert frames
    assert all(len(frame) == 32 for frame in frames)
    masks = [frame.count(engine.model.mask_id) for frame in frames]
    assert masks == sorted(masks, reverse=True)
    assert events[-1].finish == "length"
    assert frames[-1] == [token for event in events for token in event.token_ids]


async def test_a_model_that_cannot_be_loaded():
    with pytest.raises(CheckpointNotFoundError, match="no model at"):
        await ProcessEngine.launch(EngineOptions(model="/nowhere"))


async def test_loading_reports_progress():
    shares = []
    engine = await ProcessEngine.launch(OPTIONS, shares.append)
    await engine.close()
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


async def test_the_death_of_the_process_ends_requests_with_an_error():
    engine = await ProcessEngine.launch(OPTIONS)
    task = asyncio.create_task(collect(engine, max_tokens=900, ignore_eos=True, threshold=1.0))
    await until(lambda: engine.stats.running == 1)
    os.kill(engine._process.pid, signal.SIGKILL)
    with pytest.raises(EngineUnavailableError, match="died"):
        await task
    await until(lambda: not engine.alive)
    with pytest.raises(EngineUnavailableError):
        await collect(engine)
    await engine.close()


async def test_the_process_ends_with_its_parent():
    """The engine reads end of file when the parent's socket closes, whatever closed it."""
    engine = await ProcessEngine.launch(OPTIONS)
    engine._writer.transport.abort()
    await until(lambda: engine._process.poll() is not None)
    await engine.close()

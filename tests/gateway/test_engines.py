"""Real engines in processes of their own, supervised."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import pytest

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.errors import CheckpointNotFoundError, EngineUnavailableError
from unmask.gateway.residency import ResidencyLimits
from unmask.gateway.supervisor import Supervisor
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.terms import PLAIN

PROMPT = [1, *range(30, 50), 3]
OPTIONS = EngineOptions(model=EMBEDDED_MODEL, device="cpu", threads=1, kv_tokens=20_000)


async def answer(engine: ProcessEngine, tokens: int, begun: asyncio.Event | None = None) -> list[int]:
    params = GenerationParams(max_tokens=tokens, ignore_eos=True, rule="low_confidence")
    ids: list[int] = []
    with engine.submit([(PROMPT, resolve(params, engine.model, len(PROMPT)), PLAIN)]) as mailbox:
        while True:
            _, event = await mailbox.get()
            ids += event.token_ids
            if begun is not None:
                begun.set()
            if event.last:
                return ids


async def test_the_death_of_one_engine_is_healed_and_leaves_the_others_alone():
    supervisor: Supervisor[ProcessEngine] = Supervisor(ResidencyLimits(memory_bytes=100))
    for name in ("first", "second"):
        supervisor.add(name, partial(ProcessEngine.launch, OPTIONS), size_bytes=40, idle_seconds=60.0)

    begun = asyncio.Event()

    async def long_answer(name, tokens):
        async with supervisor.hold(name) as engine:
            return await answer(engine, tokens, begun)

    wanted = asyncio.create_task(long_answer("second", 300))
    async with supervisor.hold("first") as engine:
        await begun.wait()
        doomed = asyncio.create_task(answer(engine, 900))
        await asyncio.sleep(0.05)
        os.kill(engine._process.pid, signal.SIGKILL)
        with pytest.raises(EngineUnavailableError):
            await doomed
    async with supervisor.hold("first") as again:
        assert again is not engine
        ids = await answer(again, 300)
    assert await wanted == ids
    states = {state.name: state for state in supervisor.states()}
    assert "has died" in states["first"].failure
    assert [states[name].loads for name in ("first", "second")] == [2, 1]
    await supervisor.close()
    assert not again.alive


async def test_what_a_load_meets_and_what_is_broken_off_leaves_no_process():
    supervisor: Supervisor[ProcessEngine] = Supervisor(ResidencyLimits())
    nowhere = EngineOptions(model="/no/such/model", device="cpu")
    supervisor.add("nowhere", partial(ProcessEngine.launch, nowhere), size_bytes=1, idle_seconds=1.0)
    supervisor.add("model", partial(ProcessEngine.launch, OPTIONS), size_bytes=1, idle_seconds=1.0)
    with pytest.raises(CheckpointNotFoundError):
        async with supervisor.hold("nowhere"):
            pass
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), supervisor.hold("model"):
            pass
    await supervisor.stop("model")
    states = {state.name: state for state in supervisor.states()}
    assert (states["nowhere"].state, states["model"].state) == ("failed", "absent")
    await supervisor.close()

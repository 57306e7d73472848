"""A child that hangs while all its requests are still in their prompts is told from one that has long prompts."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import asynccontextmanager

import pytest

from tests.gateway.upstream.fake import Script, chat, chunk, endpoint, fake, stream
from unmask.errors import EngineStalledError
from unmask.gateway.child import Child
from unmask.gateway.lanes import known_lanes
from unmask.gateway.llama_cpp import LlamaCppOptions, xllamacpp_plan
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.upstream.endpoint import Patience
from unmask.gateway.upstream.upstream import Upstream
from unmask.metrics import Metrics
from unmask.serving import pulse
from unmask.serving.child_start import child_endpoint
from unmask.serving.entry import Stay
from unmask.serving.house import House
from unmask.serving.lane_entry import LaneEntry
from unmask.serving.lane_model import LaneModel
from unmask.serving.listing import Listing
from unmask.serving.pulse import pulse_lost
from unmask.terms import NO_TIMEOUTS

LISTING = Listing(name="m", created=0, lane="llama.cpp", paradigm="autoregressive", family="llama")
PATIENCE = Patience(notice=0.3)


@asynccontextmanager
async def nobody_home():
    """A server that takes connections, as the kernel does for a process that is stopped, and never answers."""
    gone = asyncio.Event()

    async def hold(_reader, writer):
        await gone.wait()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        gone.set()
        server.close()


@asynccontextmanager
async def asked(url: str):
    """A model whose one request is under way, the pulse of its engine, and the request's next delta."""
    upstream = Upstream(endpoint(url, kind="llama.cpp"), PATIENCE)
    metrics = Metrics("m", "f", "autoregressive", lambda: model.stats())
    model = LaneModel("m", upstream, metrics, 8, NO_TIMEOUTS, None)
    admission = await model.admit_chat(chat(), "")
    lost = asyncio.create_task(pulse_lost(model, upstream))
    try:
        with admission.running():
            yield model, lost, admission
    finally:
        lost.cancel()
        await upstream.close()


async def test_who_answers_nobody_hangs(monkeypatch):
    monkeypatch.setattr(pulse, "_QUIET_SECONDS", 0.1)
    async with nobody_home() as url, asked(url) as (model, lost, _):
        error = await asyncio.wait_for(lost, 10)
        assert model.hung
        assert isinstance(error, EngineStalledError)
        assert await model.wait_hung() is error


async def test_who_has_a_long_prompt_and_answers_his_door_does_not(monkeypatch):
    monkeypatch.setattr(pulse, "_QUIET_SECONDS", 0.1)
    async with (
        fake(Script([stream(chunk(content="Once"), chunk("stop"))], before=2.0)) as server,
        asked(server.url) as (model, lost, admission),
    ):
        (answer,) = await admission.answers()
        assert answer.content == "Once"
        assert not lost.done()
        assert not model.hung


async def test_nothing_is_asked_of_an_engine_that_nobody_wants_anything_of(monkeypatch):
    monkeypatch.setattr(pulse, "_QUIET_SECONDS", 0.02)
    async with nobody_home() as url:
        upstream = Upstream(endpoint(url, kind="llama.cpp"), PATIENCE)
        model = LaneModel("m", upstream, Metrics("m", "f", "x", lambda: model.stats()), 8, NO_TIMEOUTS, None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pulse_lost(model, upstream), 1)
        await upstream.close()


async def test_a_process_that_is_stopped_in_its_prompt_is_ended_and_started_anew(smollm2, tmp_path, monkeypatch):
    pytest.importorskip("xllamacpp")
    monkeypatch.setattr(pulse, "_QUIET_SECONDS", 1.0)
    lane = next(lane for lane in known_lanes() if lane.name == "llama.cpp")
    plan = xllamacpp_plan(smollm2, "m", LlamaCppOptions(context=4096, slots=1, threads=1))
    children: list[Child] = []

    async def connect():
        children.append(await Child.start(plan, RunDirectory(tmp_path / "run")))
        return child_endpoint(lane, children[-1], "m", "autoregressive", 1), children[-1]

    house = House([LaneEntry(LISTING, connect, capacity=8, patience=Patience(notice=1.0), stay=Stay())])
    words = chat([{"role": "user", "content": "Once upon a time there was a fox. " * 350}])
    try:
        async with house.hold("m") as model:
            admission = await model.admit_chat(words, "")
            with admission.running():
                await asyncio.sleep(0.3)
                os.kill(children[0].pid, signal.SIGSTOP)
                begun = time.monotonic()
                with pytest.raises(EngineStalledError, match="takes no notice of anybody"):
                    await asyncio.wait_for(admission.answers(), 30)
                assert time.monotonic() - begun < 20
        async with house.hold("m") as model:
            admission = await model.admit_chat(chat(max_tokens=4), "")
            with admission.running():
                (answer,) = await admission.answers()
            assert answer.content
        assert len(children) == 2
        assert children[0].status == -signal.SIGKILL
    finally:
        await house.close()

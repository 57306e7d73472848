"""Children are started, watched, explained and ended: real processes, with faults on demand."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import aiohttp
import psutil
import pytest

from tests.gateway.conftest import marked, nothing_left, running
from unmask.errors import (
    EngineCrashedError,
    ModelLoadFailedError,
    ModelLoadTimeoutError,
    ModelUnsupportedEngineError,
    PortBusyError,
    UnknownArchitectureError,
)
from unmask.gateway.child import Child
from unmask.gateway.plan import ChildPlan, Probe


async def test_a_child_is_ready_and_only_who_knows_its_secret_may_ask(fake, directory, mark):
    async with running(fake(), directory) as child, aiohttp.ClientSession(child.url) as session:
        assert child.status is None
        assert child.load_seconds > 0
        assert len(list(directory.path.glob("*.json"))) == 1
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {child.secret}"}, 200)):
            async with session.post("/v1/completions", json={}, headers=headers) as response:
                assert response.status == status
        shown = " ".join(word for process in marked(mark) for word in process.cmdline())
        assert "fake_engine" in shown
        assert child.secret not in shown
    assert child.status == -signal.SIGTERM
    assert nothing_left(mark)


async def test_a_child_gets_no_secret_of_ours_and_no_input(fake, directory, monkeypatch):
    monkeypatch.setenv("UNMASK_API_KEY", "ours")
    async with running(fake(), directory) as child:
        process = psutil.Process(child.pid)
        assert [name for name in process.environ() if name.startswith("UNMASK_")] == []
        assert os.readlink(f"/proc/{child.pid}/fd/0") == os.devnull
        assert os.getsid(child.pid) == child.pid != os.getsid(0)


async def test_a_slow_start_is_waited_for(fake, directory):
    async with running(fake("--loading", "1.0"), directory) as child:
        assert child.load_seconds > 1.0


@pytest.mark.parametrize("fault", [("--deaf",), ("--loading", "1000")])
async def test_a_child_that_is_not_ready_in_time_is_ended(fault, fake, directory, mark):
    begun = time.monotonic()
    with pytest.raises(ModelLoadTimeoutError, match=r"not ready within 0\.7 s\. It last said: 'still at it'\."):
        await Child.start(fake("--say", "still at it", *fault, start_seconds=0.7), directory)
    assert time.monotonic() - begun < 5
    assert nothing_left(mark, 0)


async def test_the_start_may_be_given_up(fake, directory, mark):
    starting = asyncio.create_task(Child.start(fake("--deaf", "--family", "--runaway"), directory))
    while len(marked(mark)) < 4:  # with its keeper and its children
        await asyncio.sleep(0.02)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert nothing_left(mark, 0)
    assert list(directory.path.glob("*.json")) == []


@pytest.mark.parametrize("turns", range(8))
async def test_the_start_may_be_given_up_at_any_moment(turns, fake, directory, mark):
    starting = asyncio.create_task(Child.start(fake("--deaf"), directory))
    for _ in range(turns):
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert nothing_left(mark)


async def test_a_program_that_is_not_there(directory, mark):
    plan = ChildPlan(name="m", command=lambda port: ["/no/such/server", str(port)], probe=Probe(body={}))
    with pytest.raises(ModelLoadFailedError, match=r"/no/such/server could not be started: .*No such file"):
        await Child.start(plan, directory)


async def test_a_name_that_no_program_can_be_given(fake, directory, mark):
    with pytest.raises(ModelLoadFailedError, match="null byte"):
        await Child.start(fake("--say", "\0"), directory)


@pytest.mark.parametrize(
    ("faults", "error", "message"),
    [
        (["--say", "E llama_model_load: error loading model: unknown model architecture: 'llada2'", "--exit", "1"],
         UnknownArchitectureError, "'llada2'"),
        (["--say", "x.cpp:2289: GGML_ASSERT(n_outputs_max <= cparams.n_outputs_max) failed", "--signal", "6"],
         ModelUnsupportedEngineError, "cannot write text"),
        (["--say", "x.cpp:1: GGML_ASSERT(a < b) failed", "--signal", "6"], ModelLoadFailedError, "GGML_ASSERT(a < b)"),
        (["--signal", "9"], ModelLoadFailedError, "was killed"),
        (["--signal", "4"], ModelLoadFailedError, "CPU instruction"),
        (["--exit", "132"], ModelLoadFailedError, "CPU instruction"),
        (["--say", "Ouch", "--exit", "3"], ModelLoadFailedError, "(exit code 3). It last said: 'Ouch'."),
        (["--unable"], ModelUnsupportedEngineError, "cannot write text"),
        (["--mute"], ModelLoadFailedError, "with no token"),
    ],
)  # fmt: skip
async def test_a_failure_to_load_is_explained(faults, error, message, fake, directory, mark):
    with pytest.raises(error) as caught:
        await Child.start(fake(*faults), directory)
    assert type(caught.value) is error
    assert message in caught.value.message
    assert caught.value.hint
    assert nothing_left(mark, 0)


async def test_a_killed_child_is_noticed_at_once_and_explained(fake, directory, mark):
    async with running(fake("--family", "--runaway"), directory) as child, aiohttp.ClientSession(child.url) as session:
        headers = {"Authorization": f"Bearer {child.secret}"}
        async with session.post("/v1/completions", json={"stream": True}, headers=headers) as response:
            assert await response.content.readline()
            os.kill(child.pid, signal.SIGKILL)
            begun = time.monotonic()
            assert await child.wait() == -signal.SIGKILL
            assert time.monotonic() - begun < 0.5
            with pytest.raises(aiohttp.ClientError):
                await response.read()
        error = await child.explain_end()
        assert isinstance(error, EngineCrashedError)
        assert (error.status, error.code) == (502, "engine_crashed")
        assert "killed (signal 9)" in error.message
        assert "memory" in error.hint
    assert nothing_left(mark, 0)


async def test_a_child_that_does_not_end_is_killed_with_all_that_it_started(fake, directory, mark):
    async with running(fake("--stubborn", "--family", "--runaway"), directory) as child:
        assert len(marked(mark)) == 4
        begun = time.monotonic()
        await asyncio.gather(child.close(0.3), child.close(0.3))
        assert 0.3 < time.monotonic() - begun < 2
        assert child.status == -signal.SIGKILL
        assert nothing_left(mark, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_keeper_that_is_killed_or_stopped_lets_nothing_live_on(number, fake, directory, mark):
    async with running(fake("--family"), directory) as child:
        keeper = psutil.Process(child.pid).parent()
        keeper.send_signal(number)
        if number == signal.SIGKILL:
            await asyncio.wait_for(child.wait(), 2)
        await child.close(0.1)
        assert nothing_left(mark, 0)


async def test_keepers_leave_ending_to_the_gateway(fake, directory):
    async with running(fake(), directory) as child:
        psutil.Process(child.pid).parent().send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        assert child.status is None


class Thief(ThreadingHTTPServer):
    """Another server, on a port that was meant for a child; keeps the headers of its requests."""

    daemon_threads = True

    def __init__(self, port: int, status: int) -> None:
        self.seen: list[str] = []
        thief = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                thief.seen.append(str(self.headers))
                self.send_response(status)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()


@pytest.mark.parametrize("fault", [(), ("--deaf",)])
async def test_another_server_on_the_port_is_noticed_and_told_nothing(fault, fake, directory):
    """Whether the child ends because it cannot listen, or goes on and never listens."""
    thieves: list[Thief] = []

    def steal(port: int) -> tuple[str, ...]:
        if thieves:
            return ()
        thieves.append(Thief(port, 200))
        return fault

    async with running(fake(before=steal), directory) as child:
        assert not child.url.endswith(f":{thieves[0].server_port}")
        assert child.secret not in "".join(thieves[0].seen)
    thieves[0].stop()
    assert all("Authorization" not in headers for headers in thieves[0].seen)


@pytest.mark.parametrize("status", [401, 404])
async def test_ports_that_are_all_taken(status, fake, directory, mark):
    """By servers that ask for a secret of their own, too."""
    thieves: list[Thief] = []

    def steal(port: int) -> tuple[str, ...]:
        thieves.append(Thief(port, status))
        return ("--deaf",)

    with pytest.raises(PortBusyError):
        await Child.start(fake(before=steal), directory)
    for thief in thieves:
        thief.stop()
    assert len(thieves) == 3
    assert nothing_left(mark, 0)

"""Engines that are late, noisy, or speak garbage, and servers elsewhere that are of no use, behind a whole server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.gateway.house.asking import DIALECTS, ask
from tests.gateway.house.elsewhere import elsewhere
from tests.gateway.house.fake_llama import xllamacpp
from tests.gateway.house.family import family, of_llama_cpp, running
from tests.gateway.house.files import write_config
from tests.serving.processes import serve
from unmask.gateway.ports import HeldPort

TEXT = "".join(xllamacpp.TEXT)
FAKE = str(Path(xllamacpp.__file__).parent)
ENGINES = ("late", "noisy", "garbled", "steady")


def config_of(folder: Path, smollm2: Path, **urls: str) -> str:
    """A configuration of an engine of each kind, and of servers elsewhere."""
    models = {name: {"path": str(smollm2), "canary": False} for name in ENGINES}
    models["late"]["load_timeout"] = 2
    remotes = {name: {"url": url, "model": "m"} for name, url in urls.items()}
    return str(write_config(folder / "models.yaml", models | remotes))


@pytest.fixture(scope="module")
def server(smollm2, tmp_path_factory):
    with ExitStack() as opened:
        patch = opened.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [FAKE, os.environ.get("PYTHONPATH")])))
        port = HeldPort()
        opened.callback(port.release)
        urls = {
            "down": f"http://127.0.0.1:{port.number}/v1",
            "page": opened.enter_context(elsewhere(200, b"<html>Welcome to nginx</html>", content_type="text/html")),
            "locked": opened.enter_context(elsewhere(401, b'{"error": {"message": "Incorrect API key provided"}}')),
            "crowded": opened.enter_context(elsewhere(429, b'{"error": {"message": "slow down"}}', retry_after="7")),
        }
        config = config_of(tmp_path_factory.mktemp("house"), smollm2, **urls)
        yield opened.enter_context(serve("--config", config, "--grace", "1"))


async def test_its_streams_are_as_they_are(server, session):
    told = await asyncio.gather(
        *(ask(session, server.url, dialect, "steady", "Hi", 40, stream=True) for dialect in DIALECTS)
    )
    assert {(one.text.strip(), one.complete) for one in told} == {(TEXT.strip(), True)}


async def test_one_that_is_late(server, session):
    steady = asyncio.create_task(ask(session, server.url, "chat", "steady", "Hi", 40, stream=True))
    started = time.monotonic()
    told = await asyncio.gather(*(ask(session, server.url, dialect, "late", "Hi") for dialect in DIALECTS))
    assert time.monotonic() - started < 10
    assert {(one.status, one.code) for one in told} == {(503, "model_load_timeout")}
    assert {one.retry_after for one in told} == {"1"}
    assert all("2 s" in one.message and "reading the weights" in one.message for one in told), told
    assert all("late" not in process.cmdline() for process in of_llama_cpp(server))
    assert (await steady).text.strip() == TEXT.strip()


async def test_one_that_writes_garbage_to_its_log(server, session):
    told = await ask(session, server.url, "chat", "noisy", "Hi", 40)
    assert told.text.strip() == TEXT.strip()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_one_that_turns_to_garbage(server, session, dialect):
    streamed, whole = await asyncio.gather(
        *(ask(session, server.url, dialect, "garbled", "Hi", 40, stream=stream) for stream in (True, False))
    )
    assert (streamed.status, streamed.code, streamed.complete) == (200, "upstream_error", False)
    assert TEXT.startswith(streamed.text)
    assert streamed.text
    assert (whole.status, whole.code) == (502, "upstream_error")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "status", "code"),
    [
        ("down", 503, "engine_unavailable"),
        ("page", 502, "upstream_error"),
        ("locked", 502, "lane_key_refused"),
        ("crowded", 429, "queue_full"),
    ],
)
async def test_elsewhere(server, session, model, status, code, stream):
    for dialect in DIALECTS:
        told = await ask(session, server.url, dialect, model, "Hi", stream=stream)
        begun = stream and model == "page"  # which has taken the request, by its head
        assert (told.status, told.code, told.complete) == (200 if begun else status, code, False), (dialect, told)
        if model == "crowded":
            assert told.retry_after == "7"


async def test_who_waits_for_too_long(smollm2, session, tmp_path, monkeypatch):
    """One at a time: the next ones are told when the server's patience, or their own, is over."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [FAKE, os.environ.get("PYTHONPATH")])))
    models = {"steady": {"path": str(smollm2), "canary": False, "slots": 1}}
    config = str(write_config(tmp_path / "models.yaml", models))
    with serve("--config", config, "--queue-timeout", "1.2") as server:
        begun = asyncio.Event()
        first = asyncio.create_task(
            ask(session, server.url, "chat", "steady", "Hi", 40, stream=True, on_text=lambda _: begun.set())
        )
        await begun.wait()
        started = time.monotonic()
        hasty = ask(session, server.url, "chat", "steady", "Hi", unmask={"timeout_ms": 400})
        patient = asyncio.create_task(ask(session, server.url, "messages", "steady", "Hi", stream=True))
        told = await hasty
        assert (told.status, told.code) == (503, "queue_timeout")
        assert told.retry_after is not None
        assert 0.4 <= time.monotonic() - started < 1
        assert (await patient).code == "queue_timeout"
        assert 1.2 <= time.monotonic() - started < 2
        assert (await first).text.strip() == TEXT.strip()
        assert (await ask(session, server.url, "chat", "steady", "Hi", 2)).complete


async def test_a_disk_without_room_for_logs(smollm2, session, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [FAKE, os.environ.get("PYTHONPATH")])))
    config = config_of(tmp_path, smollm2)
    full = tmp_path / "run"
    full.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k,mode=700", "none", str(full)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no small disk can be made here: {mounted.stderr.decode().strip()}")
    try:
        with serve("--config", config) as server:
            told = await ask(session, server.url, "chat", "noisy", "Hi", 40)
            assert told.text.strip() == TEXT.strip()
            assert server.stop() == 0
    finally:
        subprocess.run(["umount", str(full)], check=True)


async def test_the_servers_end_within_its_grace(server, session):
    """The last one here: the server is gone."""
    streams = [
        asyncio.create_task(ask(session, server.url, dialect, "steady", "Hi", 40, stream=True)) for dialect in DIALECTS
    ]
    await asyncio.sleep(0.5)
    processes = family(server)
    started = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    for told in await asyncio.gather(*streams):
        assert (told.code, told.complete) == ("shutting_down", False), told
    assert await asyncio.to_thread(server.process.wait, 10) == 0
    assert time.monotonic() - started < 5
    assert running(processes) == []

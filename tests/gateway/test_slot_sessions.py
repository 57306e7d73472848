"""Slots on disk: what a server does not do, or does wrong, costs computing and never an answer, nor much time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from tests.foreign_models import gguf_file
from tests.gateway.conftest import running
from unmask.gateway import slot_sessions
from unmask.gateway.lane import Lane
from unmask.gateway.llama_cpp import LlamaCppOptions
from unmask.gateway.slot_sessions import SlotSessions, sessions_for, slots_key
from unmask.models.card import ModelCard
from unmask.session_store import SessionStore

SECRET = "s"


@dataclass
class FakeSlots:
    """A server with slots that hold bytes, and manners to choose."""

    folder: Path
    held: dict[int, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    manner: str = "good"
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == f"Bearer {SECRET}"
        slot, action = int(request.match_info["slot"]), request.query["action"]
        name = (await request.json())["filename"]
        self.asked.append(f"{action} {slot}")
        match self.manner:
            case "hangs":
                (self.folder / name).write_bytes(b"half")
                await self.over.wait()
                return web.Response()
            case "dies":
                request.transport.close()
                return web.Response()
            case "refuses":
                return web.json_response({"error": {"message": "not supported"}}, status=501)
            case "babbles":
                return web.Response(text="<html>")
        if action == "restore":
            self.held[slot] = (self.folder / name).read_bytes()
            return web.json_response({"n_restored": len(self.held[slot])})
        content = self.held.get(slot, b"")
        cut = len(content) // 2 if self.manner == "has no room" else len(content)
        (self.folder / name).write_bytes(content[:cut])
        return web.json_response({"n_saved": len(content), "n_written": len(content)})


@asynccontextmanager
async def serving(fake: FakeSlots) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/slots/{slot}", fake.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        fake.over.set()
        await runner.cleanup()


@pytest.fixture
def store(tmp_path) -> SessionStore:
    return SessionStore(tmp_path / "sessions", 10_000)


@dataclass
class Noted:
    """What was done, in tokens."""

    saved: int = 0
    restored: int = 0

    def __call__(self, action: str, tokens: int) -> None:
        setattr(self, action, getattr(self, action) + tokens)


def sessions_of(store: SessionStore, noted: Noted | None = None, mark: Callable[[], str] = lambda: "0" * 32,
                slots: int = 2) -> SlotSessions:  # fmt: skip
    return SlotSessions(store, mark, slots, "m", noted or Noted())


def files(store: SessionStore) -> list[str]:
    return sorted(path.name for path in store.directory.iterdir())


LONG, SHORT = b"x" * 500, b"y" * 10


async def test_what_was_saved_is_restored_to_the_same_slot(store):
    noted = Noted()
    async with serving(FakeSlots(store.directory, {0: SHORT, 1: LONG})) as url:
        assert await sessions_of(store, noted).save(url, SECRET)
    assert noted == Noted(saved=500), "what is short is not worth it"
    fake = FakeSlots(store.directory)
    async with serving(fake) as url:
        assert await sessions_of(store, noted).restore(url, SECRET)
    assert fake.held == {1: LONG}
    assert noted == Noted(saved=500, restored=500)


async def test_another_key_knows_nothing_of_it(store):
    async with serving(FakeSlots(store.directory, {0: LONG})) as url:
        await sessions_of(store).save(url, SECRET)
    fake = FakeSlots(store.directory)
    async with serving(fake) as url:
        await sessions_of(store, mark=lambda: "1" * 32).restore(url, SECRET)
        await sessions_of(store, slots=0).restore(url, SECRET)
    assert fake.asked == []


async def test_files_that_change_while_they_are_loaded_are_not_believed(store):
    async with serving(FakeSlots(store.directory, {0: LONG})) as url:
        await sessions_of(store).save(url, SECRET)
    marks = iter(["0" * 32, "1" * 32])
    fake = FakeSlots(store.directory, {0: LONG})
    with capture_logs() as log:
        async with serving(fake) as url:
            sessions = sessions_of(store, mark=lambda: next(marks))
            assert await sessions.restore(url, SECRET)
            assert await sessions.save(url, SECRET)
    assert fake.asked == []
    assert "changed" in log[0]["reason"]


async def test_a_damaged_file_is_deleted_and_not_shown(store):
    async with serving(FakeSlots(store.directory, {0: LONG, 1: LONG[:300]})) as url:
        await sessions_of(store).save(url, SECRET)
    damaged, whole = (store.directory / name for name in files(store))
    content = bytearray(damaged.read_bytes())
    content[100] ^= 1
    damaged.write_bytes(content)
    fake = FakeSlots(store.directory)
    with capture_logs() as log:
        async with serving(fake) as url:
            assert await sessions_of(store).restore(url, SECRET)
    assert fake.asked == ["restore 1"]
    assert files(store) == [whole.name]
    assert [line["reason"] for line in log] == ["a damaged file was deleted"]


@pytest.mark.parametrize("manner", ["refuses", "babbles", "has no room", "dies"])
async def test_what_cannot_be_saved_is_said_once_and_leaves_nothing(store, manner):
    fake = FakeSlots(store.directory, {0: LONG, 1: LONG}, manner=manner)
    with capture_logs() as log:
        async with serving(fake) as url:
            assert await sessions_of(store).save(url, SECRET) == (manner != "dies")
    assert [line["event"] for line in log] == ["session not saved"]
    assert log[0]["model"] == "m"
    assert log[0]["reason"]
    assert files(store) == []


async def test_a_server_that_hangs_as_it_saves_is_not_waited_for(store, monkeypatch):
    monkeypatch.setattr(slot_sessions, "SAVE_SECONDS", 0.3)
    fake = FakeSlots(store.directory, {0: LONG}, manner="hangs")
    with capture_logs() as log:
        async with serving(fake) as url:
            begun = time.monotonic()
            assert not await sessions_of(store).save(url, SECRET)
            assert time.monotonic() - begun < 1
    assert [line["reason"] for line in log] == ["it takes too long"]
    assert files(store) == []


@pytest.mark.parametrize(("manner", "lives"), [("refuses", True), ("babbles", True), ("dies", False), ("hangs", False)])
async def test_what_cannot_be_restored_is_said_once_and_not_tried_again(store, manner, lives, monkeypatch):
    monkeypatch.setattr(slot_sessions, "_RESTORE_SECONDS", 0.5)
    async with serving(FakeSlots(store.directory, {0: LONG})) as url:
        await sessions_of(store).save(url, SECRET)
    sessions = sessions_of(store)
    fake = FakeSlots(store.directory, manner=manner)
    with capture_logs() as log:
        async with serving(fake) as url:
            assert await sessions.restore(url, SECRET) is lives
            assert await sessions.restore(url, SECRET)
    assert fake.asked == ["restore 0"]
    assert [line["event"] for line in log] == ["session not restored"]
    assert files(store) == []


async def test_a_folder_that_is_gone_costs_a_line(store):
    store.directory.rmdir()
    with capture_logs() as log:
        async with serving(FakeSlots(store.directory, {0: LONG})) as url:
            assert await sessions_of(store).save(url, SECRET)
            assert await sessions_of(store).restore(url, SECRET)
    assert [line["event"] for line in log] == ["session not saved", "session not restored"]


SAVER = """
import asyncio, sys
from pathlib import Path
from unmask.gateway.slot_sessions import SlotSessions
from unmask.session_store import SessionStore
store = SessionStore(Path(sys.argv[1]), 10_000)
sessions = SlotSessions(store, lambda: "0" * 32, 2, "m", print)
asyncio.run(sessions.save(sys.argv[2], "s"))
"""


async def test_a_gateway_that_is_killed_as_it_saves_leaves_what_the_next_one_sweeps(store):
    async with serving(FakeSlots(store.directory, {0: LONG})) as url:
        await sessions_of(store).save(url, SECRET)
    before = files(store)
    fake = FakeSlots(store.directory, {0: LONG * 2}, manner="hangs")
    async with serving(fake) as url:
        gateway = subprocess.Popen([sys.executable, "-c", SAVER, str(store.directory), url])
        try:
            async with asyncio.timeout(20):
                while not any((store.directory / name).read_bytes() == b"half" for name in files(store)):
                    await asyncio.sleep(0.02)
        finally:
            gateway.kill()
            gateway.wait()
    assert len(files(store)) == 2
    SessionStore(store.directory, 10_000).sweep()
    assert files(store) == before


class Remembering:
    """Sessions that note what is asked of them."""

    def __init__(self, *survives: bool, answers: bool = True) -> None:
        self.survives, self.answers = list(survives), answers
        self.asked: list[str] = []

    async def restore(self, url: str, secret: str) -> bool:
        self.asked.append("restore")
        return self.survives.pop(0) if self.survives else True

    async def save(self, url: str, secret: str) -> bool:
        self.asked.append("save")
        return self.answers


async def test_a_child_that_dies_of_what_it_is_given_is_started_again(fake, directory):
    sessions = Remembering(False)
    async with running(replace(fake(), sessions=sessions), directory) as child:
        assert child.status is None
    assert sessions.asked == ["restore", "restore", "save"]


async def test_a_child_that_is_dead_or_shall_die_at_once_is_not_asked(fake, directory):
    sessions = Remembering()
    async with running(replace(fake(), sessions=sessions), directory) as child:
        await child.close(0)
    async with running(replace(fake(), sessions=sessions), directory) as child:
        os.kill(child.pid, 9)
        await child.wait()
    assert sessions.asked == ["restore"] * 2


async def test_a_child_that_does_not_answer_gets_no_grace(fake, directory):
    plan = replace(fake("--stubborn"), sessions=Remembering(answers=False))
    async with running(plan, directory) as child:
        begun = time.monotonic()
        await child.close()
        assert time.monotonic() - begun < 2


async def test_a_child_that_has_stopped_is_not_waited_for(fake, directory, store, monkeypatch):
    monkeypatch.setattr(slot_sessions, "SAVE_SECONDS", 0.5)
    async with running(replace(fake(), sessions=sessions_of(store)), directory) as child:
        os.kill(child.pid, signal.SIGSTOP)
        begun = time.monotonic()
        await child.close()
        assert 0.5 <= time.monotonic() - begun < 2.5
    assert files(store) == []


async def test_a_load_that_is_given_up_leaves_no_child(fake, directory):
    class Slow(Remembering):
        async def restore(self, url: str, secret: str) -> bool:
            await asyncio.sleep(60)
            return True

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3), running(replace(fake(), sessions=Slow()), directory):
            pass
    assert list(directory.path.glob("*.json")) == []


def test_of_which_models_nothing_is_kept(tmp_path, store):
    lane = Lane(name="llama.cpp", kind="llama.cpp", formats=frozenset(), architectures={}, mark="1")
    gone = ModelCard(model="m", served=False, path=str(tmp_path), paradigm="autoregressive")

    def of(lane: Lane, card: ModelCard = gone, there: SessionStore | None = store) -> SlotSessions | None:
        return sessions_for(there, lane, card, LlamaCppOptions(), Noted(), "m")

    assert of(lane, there=None) is None
    assert of(replace(lane, kind="vllm")) is None
    assert of(replace(lane, mark="")) is None
    assert of(lane, replace(gone, paradigm="diffusion")) is None
    assert of(lane, replace(gone, path=None)) is None


def test_a_folder_that_is_gone_as_a_model_is_loaded_is_made_anew(tmp_path, store):
    """An engine that is told of none does not start. One that others may write to is not used."""
    file = gguf_file("llama", llama__context_length=64)(tmp_path / "model")
    card = ModelCard(model="m", served=False, path=str(file), paradigm="autoregressive")
    lane = Lane(name="fork", kind="llama.cpp", formats=frozenset(), architectures={}, mark="1")
    store.directory.rmdir()
    assert sessions_for(store, lane, card, LlamaCppOptions(), Noted(), "m") is not None
    assert store.directory.is_dir()
    store.directory.chmod(0o777)
    with capture_logs() as logs:
        assert sessions_for(store, lane, card, LlamaCppOptions(), Noted(), "m") is None
    assert "others may write there" in logs[0]["reason"]


def test_what_keys_and_values_depend_on(tmp_path, monkeypatch):
    model = tmp_path / "m.gguf"
    model.write_bytes(b"abc")
    lane = Lane(name="llama.cpp", kind="llama.cpp", formats=frozenset(), architectures={}, mark="1")
    options = LlamaCppOptions(threads=1)

    def key() -> str:
        return slots_key(lane, [model], options)

    keys = [key(), key()]
    assert keys[0] == keys.pop()
    for name, value in {"context": 5, "slots": 3, "threads": 2, "gpu_layers": 0}.items():
        keys.append(slots_key(lane, [model], replace(options, **{name: value})))
    keys.append(slots_key(replace(lane, mark="2"), [model], options))
    monkeypatch.setenv("LLAMA_ARG_CACHE_TYPE_K", "q8_0")
    keys.append(key())
    model.write_bytes(b"abd")
    keys.append(key())
    assert len(set(keys)) == len(keys)
    assert slots_key(lane, [model], replace(options, sessions=tmp_path)) == keys[-1]

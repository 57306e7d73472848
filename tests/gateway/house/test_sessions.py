"""A conversation with llama.cpp goes on where it was, although the model was unloaded meanwhile."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from tests.gateway.conftest import running
from tests.gateway.house.files import write_config
from tests.serving.processes import serve
from unmask.gateway.lanes import known_lanes
from unmask.gateway.llama_cpp import LlamaCppOptions, xllamacpp_plan
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.slot_sessions import SlotSessions, slots_key
from unmask.session_store import SessionStore, held_in

FACTS = " ".join(f"The number {number} is followed by {number + 1}." for number in range(12))
TALK = [{"role": "user", "content": f"Tell me about numbers. {FACTS}"}]


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """Where servers keep their own files."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path / "unmask"


def config(folder: Path, model: Path, **more: Any) -> str:
    smol = {"path": str(model), "threads": 1, "context": 1024, "canary": False}
    return str(write_config(folder / "unmask.yaml", {"smol": smol | more}, session_store="100MB"))


@dataclass
class Told:
    text: str
    cached: int


async def chat(http: aiohttp.ClientSession, url: str, talk: list[dict[str, str]]) -> Told:
    body = {"model": "smol", "messages": talk, "temperature": 0, "max_tokens": 12}
    async with http.post(f"{url}/v1/chat/completions", json=body) as response:
        answer = await response.json()
    usage = answer["usage"]
    return Told(answer["choices"][0]["message"]["content"], usage["prompt_tokens_details"]["cached_tokens"])


def goes_on(first: Told) -> list[dict[str, str]]:
    return [*TALK, {"role": "assistant", "content": first.text}, {"role": "user", "content": "Go on."}]


async def test_a_conversation_goes_on_as_if_the_model_had_stayed(smollm2, home, session, tmp_path):
    model = Path(shutil.copy(smollm2, tmp_path / "m.gguf"))
    with serve(str(model), "--served-model-name", "smol", "--max-context", "1024") as stays:
        first = await chat(session, stays.url, TALK)
        expected = await chat(session, stays.url, goes_on(first))
    assert not (home / "sessions").exists(), "without being asked nothing is written"
    with serve("--config", config(tmp_path, model)) as server:
        assert await chat(session, server.url, TALK) == first
        async with session.post(f"{server.url}/unmask/models/smol/stop") as response:
            assert response.status == 200
        assert await chat(session, server.url, goes_on(first)) == expected
        async with session.get(f"{server.url}/metrics") as response:
            text = await response.text()
        assert 'unmask_session_tokens_total{action="restored",lane="llama.cpp",model="smol"' in text
    assert expected.cached > 150


@pytest.mark.slow
async def test_only_the_same_model_goes_on(smollm2, home, session, tmp_path):
    """After a restart of the server it does; not with other options, nor with a file that may have changed."""
    model = Path(shutil.copy(smollm2, tmp_path / "m.gguf"))
    for cached in (False, True):
        with serve("--config", config(tmp_path, model)) as server:
            assert ((await chat(session, server.url, TALK)).cached > 150) is cached
    with serve("--config", config(tmp_path, model, context=1000)) as server:
        assert (await chat(session, server.url, TALK)).cached == 0
    os.utime(model)
    with serve("--config", config(tmp_path, model)) as server:
        assert (await chat(session, server.url, TALK)).cached == 0
    assert 0 < held_in(home / "sessions")[1] <= 100e6


@pytest.fixture
def options(tmp_path) -> LlamaCppOptions:
    return LlamaCppOptions(threads=1, context=512, slots=1)


async def ask(child: Any) -> int:
    """How many tokens of a long prompt the child knew."""
    headers = {"Authorization": f"Bearer {child.secret}"}
    async with aiohttp.ClientSession(child.url, headers=headers) as http:
        body = {"prompt": FACTS[:400], "max_tokens": 1, "temperature": 0}
        async with http.post("/v1/completions", json=body) as response:
            assert response.status == 200
            return (await response.json())["usage"]["prompt_tokens_details"]["cached_tokens"]


def plan_with_sessions(model: Path, options: LlamaCppOptions, store: SessionStore) -> Any:
    lane = next(lane for lane in known_lanes() if lane.name == "llama.cpp")
    sessions = SlotSessions(store, lambda: slots_key(lane, [model], options), 1, "m", lambda action, tokens: None)
    plan = xllamacpp_plan(model, "m", replace(options, sessions=store.directory))
    return replace(plan, sessions=sessions)


async def test_a_disk_that_is_full_costs_the_session_alone(smollm2, options, tmp_path):
    """Nothing that the child writes may be longer than 1 MiB; what it has takes more."""
    store, runs = SessionStore(tmp_path / "sessions", 10**9), RunDirectory(tmp_path / "run")
    plan = plan_with_sessions(smollm2, options, store)
    bounded = replace(plan, command=lambda port: ["sh", "-c", 'ulimit -f 1024; exec "$@"', "sh", *plan.command(port)])
    with capture_logs() as log:
        async with running(bounded, runs) as child:
            assert await ask(child) == 0
    assert [line["event"] for line in log] == ["session not saved"]
    assert list(store.directory.iterdir()) == []
    assert child.status is not None, "and it has ended as it should"


@pytest.mark.slow
async def test_a_session_that_kills_llama_cpp_is_forgotten(smollm2, options, tmp_path):
    """Whole by its digest, and cut before it was written: as a later llama.cpp's may be."""
    store, runs = SessionStore(tmp_path / "sessions", 10**9), RunDirectory(tmp_path / "run")
    plan = plan_with_sessions(smollm2, options, store)
    async with running(plan, runs) as child:
        await ask(child)
    (kept,) = store.directory.iterdir()
    with store.draft(kept.name[:32], 0) as draft:
        draft.path.write_bytes(kept.read_bytes()[:100_000])
        draft.seal(float("inf"))
    plan = plan_with_sessions(smollm2, options, store)
    with capture_logs() as log:
        async with running(plan, runs) as child:
            assert list(store.directory.iterdir()) == []
            assert await ask(child) == 0
    assert [line["event"] for line in log] == ["session not restored"]

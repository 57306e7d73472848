"""What people do first with a configuration: aliases, models that are broken, that shall stay, that shall go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.gateway.house.asking import ask
from tests.gateway.house.family import logged, of_llama_cpp
from tests.gateway.house.files import write_config
from tests.serving.processes import serve


def damaged(source: Path, target: Path) -> Path:
    """A copy that looks whole, and lacks what llama.cpp must know."""
    target.write_bytes(source.read_bytes().replace(b"llama.block_count", b"llama.block_counx", 1))
    return target


@pytest.fixture(scope="module")
def server(files, llama, smollm2, tmp_path_factory):
    home = tmp_path_factory.mktemp("house")
    (home / "cut.gguf").write_bytes(smollm2.read_bytes()[: 2**22])
    lane = {"threads": 1, "context": 512, "canary": False, **llama}
    models = {
        "damaged": {"path": str(damaged(smollm2, home / "damaged.gguf")), "preload": True, **lane},
        "cut": {"path": "cut.gguf"},
        "fast": {"path": files["smol"], "keep_alive": "1s", "aliases": ["gpt-4o-mini", "llama3.2:latest"], **lane},
        "stays": {"path": files["smol"], "pinned": True, "preload": True, **lane},
        "hasty": {"path": "unmask-tiny", "load_timeout": "1ms"},
        "odd": {"path": "unmask-tiny", "stall_timeout": 5},
    }
    with serve("--config", str(write_config(home / "models.yaml", models))) as server:
        yield server


async def test_what_is_said_at_the_start(server):
    await logged(server, "Also serving fast, stays, hasty.")
    await logged(server, "warning: 'cut' is not served: ")
    await logged(server, "warning: 'odd' is not served: 'stall_timeout' of the model 'odd' has no effect")


async def test_a_broken_model_keeps_no_other_from_being_served(server, session):
    told = await ask(session, server.url, "chat", "damaged", "Hi")
    assert (told.status, told.code) == (400, "invalid_checkpoint")
    for name, why in (("cut", "invalid_checkpoint"), ("odd", "invalid_config")):
        told = await ask(session, server.url, "chat", name, "Hi")
        assert (told.status, told.code) == (503, "model_refused")
        assert f"Model '{name}' is not served: " in told.message
        assert f"[{why}]" in told.message
    assert (await ask(session, server.url, "chat", "stays", "Hi")).complete


async def test_our_own_engine_is_given_its_time(server, session):
    told = await ask(session, server.url, "chat", "hasty", "Hi")
    assert (told.status, told.code) == (503, "model_load_timeout")


@pytest.mark.parametrize(
    ("dialect", "name"),
    [("chat", "gpt-4o-mini"), ("api/chat", "gpt-4o-mini"), ("api/chat", "gpt-4o-mini:latest"),
     ("api/chat", "llama3.2"), ("api/chat", "llama3.2:latest"), ("chat", "llama3.2:latest"),
     ("api/generate", "fast:latest")],
)  # fmt: skip
async def test_aliases(server, session, dialect, name):
    told = await ask(session, server.url, dialect, name, "Hi", 4)
    assert (told.status, told.complete) == (200, True), told
    async with session.post(f"{server.url}/api/show", json={"model": name}) as response:
        assert response.status == 200


async def test_a_context_of_the_clients_own(server, session):
    async def chat(context: int) -> tuple[int, dict]:
        messages = [{"role": "user", "content": "Tell me a long story."}]
        body = {"model": "stays", "stream": False, "messages": messages, "options": {"num_ctx": context}}
        async with session.post(f"{server.url}/api/chat", json=body) as response:
            return response.status, await response.json()

    _, whole = await chat(48)
    assert whole["prompt_eval_count"] + whole["eval_count"] == 48
    assert whole["done_reason"] == "length"
    status, refused = await chat(20)
    assert (status, refused["param"]) == (400, "options.num_ctx")
    assert (await chat(9999))[0] == 200


async def test_another_name_is_told_the_ones_that_are_spelled_alike(server, session):
    told = await ask(session, server.url, "chat", "fats", "Hi")
    assert (told.status, told.code) == (404, "model_not_found")
    assert "Use 'fast', " in told.message


async def test_it_goes_when_its_time_is_over(server, session):
    assert (await ask(session, server.url, "chat", "fast", "Hi", 4)).complete
    assert len(of_llama_cpp(server)) == 2
    async with asyncio.timeout(10):
        while len(of_llama_cpp(server)) > 1:
            await asyncio.sleep(0.1)
    assert (await ask(session, server.url, "chat", "fast", "Hi", 4)).complete


async def ready(session, server) -> int:
    async with session.get(f"{server.url}/ready") as response:
        return response.status


async def test_one_that_shall_stay_is_started_again_without_being_asked_for(server, session):
    assert await ready(session, server) == 200
    (child,) = [process for process in of_llama_cpp(server) if "stays" in process.cmdline()]
    child.kill()
    async with asyncio.timeout(5):
        while await ready(session, server) == 200:
            await asyncio.sleep(0.02)
    async with asyncio.timeout(60):
        while await ready(session, server) != 200:
            await asyncio.sleep(0.1)
    assert (await ask(session, server.url, "chat", "stays", "Hi", 4)).complete

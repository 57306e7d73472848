"""``keep_alive`` and /api/ps: for how long models stay, and which are there."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime

import aiohttp
import pytest

from tests.serving.fakes import LoadedEntry, ScriptedEngine, listening, until
from unmask.serving.entry import Stay
from unmask.serving.house import House
from unmask.serving.model_request import seconds

QUESTION = [{"role": "user", "content": "What is 7 + 8?"}]
FOREVER = "9999-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, 0),
        (-0.0, 0),
        ("0", 0),
        ("0s", 0),
        ("-0m", 0),
        (300, 300),
        (0.5, 0.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h2.5m", 5550),
        ("+10ms", 0.01),
        (".5s", 0.5),
        ("1µs", 1e-6),
        (-1, None),
        ("-1m", None),
        (1e300, None),
        (10**400, None),
        ("9" * 60 + "h", None),
    ],
)
def test_durations(value, told):
    assert seconds(value) == (told if told is None else pytest.approx(told))


@pytest.fixture
async def house():
    """One model that goes after an hour without users."""
    engine = ScriptedEngine()
    entry = LoadedEntry(engine, stay=Stay(idle_seconds=3600))
    engine.answer(entry.prompts.tokenizer.encode_text("15"))
    return House([entry])


@pytest.fixture
async def http(house):
    async with listening(house) as url, aiohttp.ClientSession(url) as http:
        yield http


async def told(http, path: str, body: dict) -> dict:
    async with http.post(path, json={"stream": False} | body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def running(http) -> list[dict]:
    async with http.get("/api/ps") as response:
        return (await response.json())["models"]


def left(model: dict) -> float:
    """Seconds until ``model`` goes."""
    return datetime.fromisoformat(model["expires_at"]).timestamp() - time.time()


async def test_only_what_is_loaded_runs_and_all_are_listed(http):
    assert await running(http) == []
    async with http.get("/api/tags") as response:
        assert [model["name"] for model in (await response.json())["models"]] == ["unmask-tiny:latest"]
    await told(http, "/api/generate", {})
    (model,) = await running(http)
    assert model["name"] == model["model"] == "unmask-tiny:latest"
    assert left(model) == pytest.approx(3600, abs=5)


@pytest.mark.parametrize(("value", "wanted"), [(60, 60), ("5m", 300), (1e3, 1000)])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_says_for_how_long_its_model_stays(value, wanted, stream, http):
    body = {"messages": QUESTION, "keep_alive": value, "stream": stream}
    async with http.post("/api/chat", json=body) as response:
        assert b"15" in await response.read()
    (model,) = await running(http)
    assert left(model) == pytest.approx(wanted, abs=5)


async def test_for_ever(http):
    await told(http, "/api/generate", {"prompt": "7 + 8", "keep_alive": -1})
    assert [model["expires_at"] for model in await running(http)] == [FOREVER]


async def test_not_at_all(http, house):
    """It goes when its last user has left, not before."""
    async with http.post("/api/chat", json={"messages": QUESTION, "keep_alive": 0}) as response:
        assert b"15" in await response.read()
    await until(lambda: house.states()[0].state == "absent")
    assert await running(http) == []


async def test_as_long_as_it_is_used_its_time_has_not_begun(http, house):
    async with house.hold("unmask-tiny"):
        await told(http, "/api/generate", {"keep_alive": "2m"})
        await asyncio.sleep(0.1)
        (model,) = await running(http)
        assert left(model) == pytest.approx(120, abs=5)


async def test_a_request_for_nothing_loads_and_unloads(http, house):
    assert (await told(http, "/api/chat", {"messages": []}))["done_reason"] == "load"
    assert (await told(http, "/api/chat", {"messages": [], "keep_alive": 0}))["done_reason"] == "unload"
    await until(lambda: house.states()[0].state == "absent")
    assert (await told(http, "/api/generate", {"keep_alive": "0s"}))["done_reason"] == "unload"
    assert house.states()[0].loads == 1  # what is not there is not loaded to be unloaded


async def test_what_others_use_is_not_unloaded_under_them(http, house):
    async with house.hold("unmask-tiny") as model:
        await told(http, "/api/generate", {"keep_alive": 0})
        assert house.states()[0].state == "ready"
        assert model.name == "unmask-tiny"
    await until(lambda: house.states()[0].state == "absent")


async def test_a_pinned_model_stays():
    house = House([LoadedEntry(ScriptedEngine())])
    async with listening(house) as url, aiohttp.ClientSession(url) as http:
        assert (await told(http, "/api/generate", {"keep_alive": 0}))["done_reason"] == "unload"
        assert (await told(http, "/api/generate", {"keep_alive": 1}))["done_reason"] == "load"
        assert [model["expires_at"] for model in await running(http)] == [FOREVER]


async def test_a_model_that_is_not_served_cannot_be_unloaded(http):
    async with http.post("/api/generate", json={"model": "other", "keep_alive": 0}) as response:
        assert (response.status, (await response.json())["code"]) == (404, "model_not_found")

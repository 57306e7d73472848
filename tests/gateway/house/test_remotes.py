"""What is told of models that run elsewhere: nothing that is only guessed."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess

import aiohttp
import pytest

from tests.gateway.config.files import config, refusal
from tests.gateway.upstream.fake import Script, chunk, fake, stream
from tests.serving.fakes import listening
from tests.serving.processes import UNMASK, environment
from unmask.engine.options import EngineOptions
from unmask.serving.opening import HousePlan
from unmask.serving.settings import ServerSettings

ANSWER = Script([stream(chunk(content="Once"), chunk("stop"))])
BODY = {"model": "far", "messages": [{"role": "user", "content": "Hi"}], "stream": False}


def house(tmp_path, url, **more):
    read = config(tmp_path, json.dumps({"models": {"far": {"url": url, "model": "their-name", **more}}}))
    return HousePlan(models=[], engine=EngineOptions(model=""), settings=ServerSettings(), config=read).open()


async def told(http) -> dict:
    async with http.get("/unmask/models") as response:
        (model,) = (await response.json())["models"]
        return model


async def listed(http) -> dict:
    async with http.get("/v1/models") as response:
        (card,) = (await response.json())["data"]
        return card["unmask"]


async def test_a_model_elsewhere_is_of_a_kind_that_nobody_knows_until_its_server_tells(tmp_path):
    async with fake(ANSWER) as far, listening(house(tmp_path, far.url)) as url, aiohttp.ClientSession(url) as http:
        assert (await listed(http))["paradigm"] == (await told(http))["paradigm"] == "unknown"
        async with http.post("/unmask/models/far/stop") as response:
            assert response.status == 200
        card = {"id": "their-name", "unmask": {"paradigm": "autoregressive"}}
        far.pages["/v1/models"] = json.dumps({"data": [card]}).encode()
        async with http.post("/v1/chat/completions", json=BODY) as response:
            assert response.status == 200
        assert (await listed(http))["paradigm"] == (await told(http))["paradigm"] == "autoregressive"


@pytest.mark.parametrize(
    ("said", "paradigm"), [({"diffusing": True}, "diffusion"), ({"paradigm": "autoregressive"}, "autoregressive")]
)
async def test_what_the_configuration_says_of_it_holds(tmp_path, said, paradigm):
    async with fake(ANSWER) as far:
        card = {"id": "their-name", "unmask": {"paradigm": "nonsense"}}
        far.pages["/v1/models"] = json.dumps({"data": [card]}).encode()
        async with listening(house(tmp_path, far.url, **said)) as url, aiohttp.ClientSession(url) as http:
            async with http.post("/unmask/models/far/load") as response:
                assert response.status == 200
            assert (await listed(http))["paradigm"] == paradigm


def test_a_paradigm_is_for_models_elsewhere_and_goes_with_the_rest(tmp_path):
    wrong = refusal(tmp_path, "models: {a: {url: http://x/v1, model: m, diffusing: true, paradigm: autoregressive}}")
    assert "not that of a model with 'diffusing'" in wrong.message
    assert refusal(tmp_path, "models: {a: {path: unmask-tiny, paradigm: diffusion}}").param == "models.a"
    assert refusal(tmp_path, "models: {a: {url: http://x/v1, model: m, paradigm: image}}").param == "models.a.paradigm"


async def test_a_host_that_is_down_is_told_by_the_last_contact(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        down = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with listening(house(tmp_path, down)) as url, aiohttp.ClientSession(url) as http:
            async with http.post("/v1/chat/completions", json=BODY) as response:
                assert response.status == 503
                error = (await response.json())["error"]
                assert error["message"].startswith(f"Model 'far' at {down} cannot be reached: Cannot connect to host")
                assert "ssl:" not in error["message"]
                assert error["message"].endswith(
                    "It may be starting, or have ended. Check its 'url', and the server there."
                )
            model = await told(http)
            assert model["state"] == "unreachable"
            async with http.get("/api/ps") as response:
                assert (await response.json())["models"] == []
            async with http.post("/v1/chat/completions", json=BODY) as response:
                assert response.status == 503
            async with http.get("/unmask/requests?limit=1") as response:
                assert (await response.json())["requests"][0]["found"] == "unreachable"
            async with http.get("/v1/models") as response:
                (card,) = (await response.json())["data"]
                assert (card["max_model_len"], card["unmask"]["parameters"]) == (None, None)
            assert "Cannot connect to host" in model["failure"]
            assert "ssl:" not in model["failure"]
            done = await asyncio.to_thread(
                subprocess.run, [UNMASK, "ps", "--url", url], capture_output=True, text=True, env=environment()
            )
            _, row, note = done.stdout.splitlines()
            assert row.split()[:4] == ["far", "-", "unreachable", "remote"]
            assert note.startswith("far: it last failed: Cannot connect to host")
            async with http.post("/unmask/models/far/stop") as response:
                assert (await response.json())["was"] == "unreachable"
    log = capsys.readouterr().out
    assert "model unreachable" in log
    assert "model loaded" not in log


async def test_one_that_goes_down_and_comes_back_is_found_by_who_looks(tmp_path, monkeypatch):
    """Nobody waits for the answer: it is told to the next who looks."""
    monkeypatch.setattr("unmask.serving.lane_resident._OLD_SECONDS", 0.0)

    async def until(http, state):
        async with asyncio.timeout(5):
            while (await told(http))["state"] != state:
                await asyncio.sleep(0.02)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        async with listening(house(tmp_path, url)) as server, aiohttp.ClientSession(server) as http:
            async with http.post("/unmask/models/far/load") as response:
                assert (await response.json())["state"] == "unreachable"
            taken.listen()
            taken.setblocking(False)
            refusing = asyncio.create_task(refuse_all(taken))
            await until(http, "ready")  # an error is an answer
            refusing.cancel()
            taken.close()
            await until(http, "unreachable")


async def refuse_all(listener: socket.socket) -> None:
    """Answer whoever comes with an error."""
    loop = asyncio.get_running_loop()
    while True:
        connection, _ = await loop.sock_accept(listener)
        with connection:
            await loop.sock_recv(connection, 4096)
            await loop.sock_sendall(connection, b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize(("said", "asked"), [({}, 1), ({"canary": False}, 1), ({"canary": True}, 5)])
async def test_a_model_elsewhere_is_asked_by_the_canary_only_where_that_is_wanted(tmp_path, said, asked):
    async with (
        fake(ANSWER) as far,
        listening(house(tmp_path, far.url, **said)) as url,
        aiohttp.ClientSession(url) as http,
    ):
        async with http.post("/v1/chat/completions", json=BODY) as response:
            assert response.status == 200
        async with asyncio.timeout(5):
            while said.get("canary") and "canary" not in await listed(http):
                await asyncio.sleep(0.02)
        assert len(far.bodies) == asked


STREAMED = {
    "/v1/chat/completions": {"messages": BODY["messages"], "stream": True},
    "/v1/completions": {"prompt": "Hi", "stream": True},
    "/v1/responses": {"input": "Hi", "stream": True, "store": False},
    "/v1/messages": {"messages": BODY["messages"], "max_tokens": 8, "stream": True},
    "/api/chat": {"messages": BODY["messages"]},
    "/api/generate": {"prompt": "Hi"},
}


@pytest.mark.parametrize("path", STREAMED)
async def test_a_stream_that_is_refused_has_the_status_of_the_refusal(tmp_path, path):
    """Whoever tries again elsewhere goes by it."""
    body = {"model": "far", **STREAMED[path]}
    too_many = json.dumps({"error": {"message": "Too many at once.", "type": "rate_limit", "code": 429}}).encode()
    busy = Script([too_many], status=429, content_type="application/json", before=0.2)
    async with fake(busy) as far:
        told = await refusal_of(tmp_path, far.url, path, body)
        assert told[:2] == (429, "application/json")
        assert "Too many at once." in told[2]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        down = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        assert (await refusal_of(tmp_path, down, path, body))[:2] == (503, "application/json")


async def refusal_of(tmp_path, far: str, path: str, body: dict) -> tuple[int, str, str]:
    async with (
        listening(house(tmp_path, far)) as url,
        aiohttp.ClientSession(url) as http,
        http.post(path, json=body) as response,
    ):
        return response.status, response.content_type, await response.text()

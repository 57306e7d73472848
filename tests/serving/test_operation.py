"""Operators ask a running server about its models, and stop them: a real one, with a child of llama.cpp."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.fakes import LoadedEntry, ScriptedEngine, SlowEntry, listening, until
from tests.serving.processes import UNMASK, Server, environment, serve
from tests.serving.test_lanes import entry_at
from tests.serving.test_loading_streams import BODIES
from unmask.cli.server_client import ServerClient
from unmask.errors import LogNotFoundError, ModelNotFoundError
from unmask.refusal import Refusal
from unmask.serving.entry import Stay
from unmask.serving.house import House

CHAT = "/v1/chat/completions"
CHILD = "small/lm"  # its name holds a slash


@pytest.fixture(scope="module")
def live(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Our own engine beside a child, neither of them loaded."""
    pytest.importorskip("xllamacpp")
    home = tmp_path_factory.mktemp("operated")
    models = {
        "tiny": {"path": "unmask-tiny", "aliases": ["t"]},
        CHILD: {"path": str(smollm2), "keep_alive": "10m", "canary": False},
        "broken": {"path": str(home / "none.gguf")},
    }
    config = home / "unmask.yaml"
    config.write_text(json.dumps({"models": models, "log_dir": str(home / "run")}))
    with serve("--config", str(config)) as server:
        yield server


@pytest.fixture
def client(live: Server) -> ServerClient:
    return ServerClient(live.url)


def unmask(live: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that asks the live server."""
    settings = environment() | {"UNMASK_URL": live.url}
    return subprocess.run([UNMASK, *arguments], capture_output=True, text=True, env=settings, timeout=60)


def shown(client: ServerClient, name: str) -> dict:
    return next(model for model in client.models() if model["name"] == name)


async def ask(url: str, path: str, body: dict | None = None, **headers: str) -> tuple[int, dict]:
    async with aiohttp.ClientSession(url) as http, http.post(path, json=body, headers=headers) as response:
        return response.status, await response.json()


async def test_a_child_is_loaded_told_of_read_along_and_stopped(live, client):
    assert (shown(client, CHILD)["state"], shown(client, CHILD)["pid"]) == ("absent", None)
    status, told = await ask(live.url, f"/unmask/models/{CHILD}/load")
    assert (status, told["name"], told["state"], told["lane"]) == (200, CHILD, "ready", "llama.cpp")
    assert told["keep"] == 600
    assert told["expires_at"] == pytest.approx(time.time() + 600, abs=10)
    process = psutil.Process(told["pid"])
    assert "xllamacpp" in " ".join(process.cmdline())

    body = {"model": CHILD, "prompt": "Hello", "stream": False, "options": {"num_predict": 4}, "keep_alive": "5m"}
    assert (await ask(live.url, "/api/generate", body, **{"x-request-id": "to/child"}))[0] == 200
    assert shown(client, CHILD)["expires_at"] == pytest.approx(time.time() + 300, abs=10)
    record = client.request("to/child")
    assert (record["served"], record["lane"], record["outcome"]) == (CHILD, "llama.cpp", "answered")
    assert record["completion_tokens"] == 4
    assert 0 < record["phases"]["first"] < record["phases"]["total"]

    log = client.log(CHILD, lines=20)
    assert len(log["lines"]) == 20
    assert Path(log["log"]).read_text().endswith("\n".join(log["lines"]) + "\n")
    assert (await ask(live.url, f"/unmask/models/{CHILD}/stop"))[1]["was"] == "ready"
    assert not process.is_running()
    assert client.log(CHILD, after=log["position"])["lines"][-1].startswith(
        "---"
    )  # its end is in the log of a dead one
    states = {model["name"]: model["state"] for model in ServerClient(live.url).models()}
    assert states == {"tiny": "absent", CHILD: "absent", "broken": "refused"}


async def test_the_verbs(live, client):
    body = BODIES[CHAT] | {"model": "t", "stream": False}
    assert (await ask(live.url, CHAT, body, **{"x-request-id": "why"}))[0] == 200
    listed = unmask(live, "ps").stdout.splitlines()
    assert [line.split()[:3] for line in listed[:4]] == [
        ["NAME", "ALIASES", "STATE"], ["tiny", "t", "ready"], [CHILD, "-", "absent"], ["broken", "-", "refused"],
    ]  # fmt: skip
    assert listed[4].startswith("broken: ")
    assert listed[4].endswith("[checkpoint_not_found]")
    assert json.loads(unmask(live, "ps", "--json").stdout)["models"][0]["aliases"] == ["t"]
    for chosen in ("why", "--last"):
        told = dict(line.split("  ", 1) for line in unmask(live, "why", chosen).stdout.splitlines())
        assert told["model"].strip() == "tiny, asked for as t"
        assert told["outcome"].strip() == "answered (status 200)"
        assert "rule threshold" in told["applied"]
    assert json.loads(unmask(live, "why", "why", "--json").stdout) == client.request("why")
    assert unmask(live, "stop", "tiny").stdout == "Stopped 'tiny', which was ready.\n"
    assert unmask(live, "stop", "t").stdout == "'tiny' was not in memory.\n"
    no_log = unmask(live, "logs", "tiny")
    assert no_log.returncode == 1
    assert "[log_not_found]" in no_log.stderr


async def test_the_server_says_what_else_it_has(live):
    async with asyncio.timeout(10):  # its address is known from the first line
        while not any(line.startswith("Try: ") for line in live.log):
            await asyncio.sleep(0.01)
    assert f"Also serving {CHILD}.\n" in live.log
    assert any(line.startswith("warning: 'broken' is not served: ") for line in live.log)


async def test_the_tokens_of_a_child_are_counted(live):
    async def counted() -> dict[str, float]:
        async with aiohttp.ClientSession(live.url) as http, http.get("/metrics") as response:
            families = text_string_to_metric_families(await response.text())
            samples = [sample for family in families for sample in family.samples]
        found = (sample for sample in samples if sample.labels.get("model") == CHILD)
        return {sample.labels["kind"]: sample.value for sample in found if sample.name == "unmask_usage_tokens_total"}

    before = await counted()
    _, answer = await ask(live.url, CHAT, BODIES[CHAT] | {"model": CHILD, "stream": False})
    after, usage = await counted(), answer["usage"]
    assert after["prompt"] - before.get("prompt", 0) == usage["prompt_tokens"] > 0
    assert after["completion"] - before.get("completion", 0) == usage["completion_tokens"] > 0


async def test_a_log_is_followed(live):
    await ask(live.url, f"/unmask/models/{CHILD}/load")
    following = subprocess.Popen(
        [UNMASK, "logs", CHILD, "--follow", "-n", "1", "--url", live.url], stdout=subprocess.PIPE, text=True
    )
    try:
        assert following.stdout.readline()
        assert (await ask(live.url, f"/unmask/models/{CHILD}/stop"))[0] == 200
        assert any(line.startswith("---") for line in following.stdout)  # or this waits for ever
    finally:
        following.terminate()
        following.wait()
        following.stdout.close()


async def test_what_the_disk_did_not_take_of_a_log_is_told(live):
    """With a limit on the sizes of the server's files in place of a disk that is full."""
    await ask(live.url, f"/unmask/models/{CHILD}/load")
    assert "lost" not in unmask(live, "logs", CHILD).stdout
    usual = resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        assert (await ask(live.url, CHAT, BODIES[CHAT] | {"model": CHILD, "stream": False}))[0] == 200
        lines = unmask(live, "logs", CHILD).stdout.splitlines()
    finally:
        resource.prlimit(live.process.pid, resource.RLIMIT_FSIZE, usual)
    assert re.fullmatch(r"--- \d+ lines were lost, which the disk did not take\.", lines[-1])
    assert json.loads(unmask(live, "logs", CHILD, "--json").stdout)["lost"] > 0
    await ask(live.url, f"/unmask/models/{CHILD}/stop")
    assert json.loads(unmask(live, "logs", CHILD, "--json").stdout)["lost"] == 0


def test_what_is_not_there(live, client):
    for name in ("other", "a/b", "tiny/x"):
        with pytest.raises(ModelNotFoundError):
            client.stop(name)
    with pytest.raises(LogNotFoundError, match="lane 'unmask'"):
        client.log("tiny")


async def test_a_stop_ends_requests_and_loads_and_says_so():
    engine = ScriptedEngine()
    entry = LoadedEntry(engine, stay=Stay())
    async with listening(House([entry])) as url:
        asking = asyncio.create_task(ask(url, CHAT, BODIES[CHAT] | {"stream": False}))
        await until(lambda: len(engine.submitted) == 1)
        told = (await ask(url, "/unmask/models/unmask-tiny/stop"))[1]
        assert (told["was"], told["users"], told["waiting"], told["model"]["state"]) == ("ready", 1, 0, "absent")
    slow = SlowEntry(ScriptedEngine())
    async with listening(House([slow])) as url:
        asking = asyncio.create_task(ask(url, CHAT, BODIES[CHAT] | {"stream": False}))
        await until(lambda: slow.loading == 1)
        told = (await ask(url, "/unmask/models/unmask-tiny/stop"))[1]
        assert (told["was"], told["users"], told["waiting"]) == ("loading", 0, 1)
        assert slow.loading == 0
        status, body = await asking
        assert (status, body["error"]["code"]) == (503, "engine_unavailable")


async def test_a_model_that_stays_is_stopped_until_it_is_asked_for():
    entry = LoadedEntry(ScriptedEngine())
    house = House([entry])
    async with listening(house) as url, aiohttp.ClientSession(url) as http:
        await ask(url, "/unmask/models/unmask-tiny/stop")
        await asyncio.sleep(0.1)
        assert house.states()[0].state == "absent"  # nobody loads it again unasked
        async with http.get("/ready") as response:
            assert response.status == 200
        entry._engine.running = True
        status, told = await ask(url, "/unmask/models/unmask-tiny/load")
        assert (status, told["state"], told["pinned"], told["loads"]) == (200, "ready", True, 2)
        entry._engine.running = False  # now it dies, and is tried again as before
        await until(lambda: house.states()[0].state == "failed")
        async with http.get("/ready") as response:
            assert response.status == 503
        await until(lambda: house.states()[0].loads > 2)


async def test_ready_names_a_model_that_has_not_failed():
    broken = LoadedEntry(ScriptedEngine(), stay=Stay(preload=True))
    broken._engine.running = False
    house = House([broken, entry_at("http://127.0.0.1:1/v1")])
    async with listening(house) as url, aiohttp.ClientSession(url) as http:
        assert house.states()[0].state == "failed"
        async with http.get("/ready") as response:
            assert await response.json() == {"status": "ready", "model": house.entries[1].name}
    house = House([broken])
    async with listening(house) as url, aiohttp.ClientSession(url) as http, http.get("/ready") as response:
        assert await response.json() == {"status": "ready", "model": None}


async def test_refused_models_say_why():
    """Who operates the server is shown the whole path, a client only the file's name."""
    refusal = Refusal("unknown_architecture", "What is '/srv/my models/odd.gguf'?", "Ask its maker.")
    house = House([LoadedEntry(ScriptedEngine())], {"odd": refusal})
    async with listening(house) as url, aiohttp.ClientSession(url) as http, http.get("/unmask/models") as response:
        served, refused = (await response.json())["models"]
        assert served["state"] == "ready"
        why = {"code": "unknown_architecture", "message": refusal.message, "hint": "Ask its maker."}
        assert refused == {"name": "odd", "aliases": [], "adapters": [], "state": "refused", "why_not": why}
        for path in ("load", "stop"):
            status, body = await ask(url, f"/unmask/models/odd/{path}")
            assert (status, body["error"]["code"]) == (503, "model_refused")
        async with http.post(
            "/v1/chat/completions", json={"model": "odd", "messages": [{"role": "user", "content": "Hi"}]}
        ) as answer:
            assert (answer.status, answer.headers["x-should-retry"]) == (503, "false")
            said = (await answer.json())["error"]
        whole = "Model 'odd' is not served: What is 'odd.gguf'? [unknown_architecture] Ask its maker."
        assert (said["message"], said["param"]) == (whole, "model")
        async with http.get("/v1/models") as answer:
            told = (await answer.json())["unmask"]["refused"]["odd"]
        assert told == why | {"message": "What is 'odd.gguf'?"}


async def test_whoever_asks_for_a_load_and_leaves_ends_it():
    slow = SlowEntry(ScriptedEngine())
    async with listening(House([slow])) as url:
        asking = asyncio.create_task(ask(url, "/unmask/models/unmask-tiny/load"))
        await until(lambda: slow.loading == 1)
        asking.cancel()
        await until(lambda: slow.loading == 0)

"""A model on a program that gives nothing but logits: made known, configured, served; and what becomes of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess

import psutil
import pytest

from tests.gateway.house.asking import DIALECTS, ask
from tests.gateway.house.family import family
from tests.gateway.house.files import chatty, write_config
from tests.logits_programs import logits_program, toy_program
from tests.serving.processes import UNMASK, environment, serve

PROMPTS = ("Hi", "Tell me of canvases.", "Why?", "one two three")


def unmask(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [UNMASK, *map(str, arguments)], capture_output=True, text=True, env=environment(), timeout=120
    )


@pytest.fixture(scope="module")
def home(golden, tmp_path_factory):
    """A file of the model, and a data folder in which a program for it is known as ``fork``, and one without weights as
    ``toy``.
    """
    folder = tmp_path_factory.mktemp("logits")
    chatty(golden / "diffusion_gemma" / "ckpt", folder / "gemma.gguf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        told = unmask("engine", "add", "fork", logits_program(folder, "diffusion-gemma"))
        assert "fork  logits_worker; 1 diffusion architectures" in told.stderr
        assert "cannot be used" not in told.stderr
        assert unmask("engine", "add", "toy", toy_program(folder, "diffusion-gemma")).returncode == 0
        yield folder


@pytest.fixture(scope="module")
def server(home):
    """The same file on our own engine and on the programs, with two processes of each."""
    quick = {"path": str(home / "gemma.gguf"), "defaults": {"unmask": {"steps": 4}}, "canary": False}
    models = {
        "ours": quick,
        "theirs": quick | {"lane": "fork", "slots": 2, "gpu_layers": 7, "context": 200, "preload": True},
        "dying": quick | {"lane": "toy", "slots": 2, "context": 200},
        "odd": quick | {"lane": "fork", "max_rows": 64},
    }
    with serve("--config", str(write_config(home / "models.yaml", models)), "--batch-invariant") as server:
        yield server


def workers(server, word: str = "tests.logits_worker") -> list[psutil.Process]:
    return [one for one in family(server) if any(word in said for said in one.cmdline())]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_same_text_as_on_our_own_engine(server, session, dialect):
    whole = await ask(session, server.url, dialect, "theirs", PROMPTS[1], 24)
    streamed = await ask(session, server.url, dialect, "theirs", PROMPTS[1], 24, stream=True)
    ours = await ask(session, server.url, dialect, "ours", PROMPTS[1], 24)
    assert (whole.status, streamed.complete, whole.code) == (200, True, None), whole
    assert whole.text == streamed.text == ours.text != ""


async def test_requests_beside_each_other(server, session):
    """More than there are processes, sampled too, some of them streamed."""
    jobs = [(prompt, {"temperature": t, "seed": 5 + t}) for prompt in PROMPTS for t in (0, 1)]

    async def texts(model: str, *, together: bool) -> list[str]:
        asking = [
            ask(session, server.url, "chat", model, prompt, 24, stream=together and n % 3 > 0, **more)
            for n, (prompt, more) in enumerate(jobs)
        ]
        told = await asyncio.gather(*asking) if together else [await one for one in asking]
        assert [one.status for one in told] == [200] * len(jobs), told
        return [one.text for one in told]

    alone = await texts("theirs", together=False)
    assert await texts("theirs", together=True) == alone
    assert len(set(alone)) > len(PROMPTS)


async def test_what_is_told_of_it(server, session, home):
    async with session.get(f"{server.url}/v1/models/theirs") as response:
        card = await response.json()
    assert card["unmask"]["lane"] == "fork"
    body = {"model": "theirs", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
    async with session.post(f"{server.url}/v1/chat/completions", json=body) as response:
        report = (await response.json())["unmask"]
        assert response.headers["x-unmask-lane"] == report["lane"] == "fork"
    assert (report["applied"]["steps"], report["forwards"]) == (4, 4)
    async with session.post(f"{server.url}/tokenize", json={"model": "theirs", "prompt": "Hi"}) as response:
        assert (await response.json())["count"] == 2
    told = unmask("ps", "--url", server.url, "--json")
    row = next(row for row in json.loads(told.stdout)["models"] if row["name"] == "theirs")
    assert (row["lane"], row["state"], row["paradigm"]) == ("fork", "ready", "diffusion")
    log = unmask("logs", "theirs", "--url", server.url).stdout
    assert log.count("logits of gemma.gguf, NGL 7") == 2
    assert {len(workers(server))} == {2}
    # Without a word on engines our own comes first.
    assert json.loads(unmask("inspect", home / "gemma.gguf", "--json").stdout)["lane"] == "unmask"
    inspected = json.loads(unmask("inspect", home / "gemma.gguf", "--lane", "fork", "--json").stdout)
    assert (inspected["lane"], inspected["how"]) == ("fork", "by fork (logits_worker)")


async def test_what_it_does_not_do(server, session):
    told = await ask(session, server.url, "chat", "theirs", "Hi", logit_bias={"70": 5})
    assert (told.status, told.code) == (400, "unsupported_value")
    assert "logit_bias" in told.message or "bias" in told.message
    assert (await ask(session, server.url, "chat", "odd", "Hi")).code == "model_refused"
    told = await ask(session, server.url, "chat", "theirs", "Hi", 1000)
    assert (told.status, told.code) == (400, "context_length_exceeded")


async def test_processes_that_are_killed_are_started_again(server, session):
    async def both() -> list[str]:
        told = await asyncio.gather(*(ask(session, server.url, "chat", "dying", text, 100) for text in PROMPTS[:2]))
        assert [one.code for one in told] == [None, None], told
        return [one.text for one in told]

    expected = await both()
    for pause in (0, 0.05, 0.2):
        while len(found := workers(server, "toy_logits")) < 2:
            assert await both() == expected
        asking = asyncio.create_task(both())
        await asyncio.sleep(pause)
        for process in found:
            process.kill()
        assert await asking == expected
    assert "starting the engine of model 'dying'" in unmask("logs", "dying", "--url", server.url).stdout


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_nothing_behind(home):
    path = write_config(home / "other.yaml", {"m": {"path": str(home / "gemma.gguf"), "lane": "toy"}})
    with serve("--config", str(path)) as server:
        started = family(server)
        assert len(workers(server, "toy_logits")) == 1
        os.kill(server.process.pid, signal.SIGKILL)
        assert psutil.wait_procs(started[1:], timeout=10)[1] == []


def test_a_program_proves_itself(home):
    told = unmask("engine", "probe", "toy", "--model", home / "gemma.gguf")
    assert "It loaded the model and wrote a token" in told.stderr, told.stderr
    rows = json.loads(unmask("engine", "list", "--json").stdout)["engines"]
    (toy,) = [row for row in rows if row["name"] == "toy"]
    assert (toy["usable"], toy["architectures"]["diffusion"]) == (True, ["diffusion-gemma"])

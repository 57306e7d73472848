"""A server of llama.cpp for diffusion as a lane: whole canvases, one at a time, each ended by "stop"."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.gateway.builds import CANVASES, RELEASED, build
from tests.gateway.fake_canvases import CANVAS, KNOWN, words
from tests.gateway.house.asking import DIALECTS, ask
from tests.gateway.house.engines import registered
from tests.gateway.house.files import chatty, write_config
from tests.serving.processes import serve

SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def house(golden, tmp_path_factory):
    """A server whose model ``gemma`` is on such a lane, and the log of its child."""
    home = tmp_path_factory.mktemp("canvases")
    program = build(home / "server", *RELEASED, "diffusion-gemma", words=CANVASES, engine="fake_canvases")
    registered(home, canvases=program)
    path = chatty(golden / "diffusion_gemma" / "ckpt", home / "gemma.gguf")
    config = write_config(home / "models.yaml", {"gemma": {"path": str(path), "lane": "canvases", "canary": False}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home))
        with serve("--config", str(config)) as server:
            yield server, home / "run" / "gemma.log"


def asked(log: Path) -> list[dict]:
    """What the child was asked."""
    return [json.loads(line.partition("asked: ")[2]) for line in log.read_text().splitlines() if "asked: " in line]


async def chat(session, server, **body) -> tuple[int, dict]:
    said = {"model": "gemma", "messages": [{"role": "user", "content": "Hi"}]} | body
    async with session.post(f"{server.url}/v1/chat/completions", json=said) as response:
        return response.status, await response.json()


async def test_streamed_and_whole_are_the_same_in_every_dialect(house, session):
    server, log = house
    for dialect in DIALECTS:
        for stream in (False, True):
            told = await ask(session, server.url, dialect, "gemma", "Hi", 12, stream=stream)
            assert (told.status, told.text, told.complete) == (200, words(CANVAS), True), (dialect, told)
    assert all(body.keys() <= set(KNOWN) for body in asked(log))


@pytest.mark.parametrize(
    ("prompt", "most", "tokens", "finish"),
    [("Hi", 12, 256, "length"), ("Hi", 256, 256, "length"), ("Hi", 257, 512, "length"), ("be brief", 12, 12, "length"),
     ("be brief", 100, 12, "stop"), ("be brief", None, 12, "stop")],
)  # fmt: skip
async def test_what_it_took_and_why_it_ended(house, session, prompt, most, tokens, finish):
    """It says "stop" of every answer; one that has all the tokens that were asked for was cut."""
    body = {} if most is None else {"max_tokens": most}
    status, answer = await chat(session, house[0], messages=[{"role": "user", "content": prompt}], **body)
    assert status == 200
    assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (tokens, finish)


async def test_stop_strings_are_met_here(house, session):
    server, log = house
    status, answer = await chat(session, server, stop=[" w7", " w9"])
    assert (status, answer["choices"][0]["message"]["content"]) == (200, words(7))
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "stop" not in asked(log)[-1]


@pytest.mark.parametrize(
    ("param", "body"),
    [("top_p", {"top_p": 0.5}), ("response_format", {"response_format": SCHEMA}), 
         ("top_logprobs", {"logprobs": True, "top_logprobs": 2}),
     ("tool_choice", {"tools": [TOOL], "tool_choice": "required"}), ("min_tokens", {"min_tokens": 3}),
     ("logit_bias", {"logit_bias": {"3": 1}})],
)  # fmt: skip
async def test_what_it_would_pass_over_is_refused(house, session, param, body):
    status, answer = await chat(session, house[0], **body)
    assert (status, answer["error"]["param"]) == (400, param), answer
    assert "'canvases'" in answer["error"]["message"]


async def test_who_leaves_while_another_is_served_is_never_sent(house, session):
    server, log = house
    await ask(session, server.url, "chat", "gemma", "Hi", 1)
    before = len(asked(log))
    first = asyncio.create_task(ask(session, server.url, "chat", "gemma", "Hi", 3 * CANVAS))
    async with asyncio.timeout(5):
        while len(asked(log)) == before:
            await asyncio.sleep(0.01)
    second = asyncio.create_task(ask(session, server.url, "messages", "gemma", "Hi", stream=True))
    await asyncio.sleep(0.2)
    second.cancel()
    assert (await first).text == words(3 * CANVAS)
    assert (await ask(session, server.url, "chat", "gemma", "Hi", 1)).complete
    assert len(asked(log)) == before + 2

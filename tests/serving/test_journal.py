"""What happened to each request is remembered, and nothing of what it said."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.serving.fakes import ScriptedEngine, SlowEntry, listening, serving, until
from tests.serving.test_loading_streams import BODIES
from unmask.errors import ModelLoadFailedError
from unmask.events import CanvasEvent
from unmask.serving.house import House
from unmask.serving.journal import MOST_REQUESTS, Journal, RequestRecord
from unmask.serving.security import key_file
from unmask.serving.security.key import Key, digest, new_secret

PATHS = [*BODIES]
CHAT = "/v1/chat/completions"


async def record(http, request_id: str) -> dict:
    async with http.get(f"/unmask/requests/{request_id}") as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def ended(http, request_id: str) -> dict:
    """The record once its request is over: a client that left does not see when that is."""
    async with asyncio.timeout(5):
        while (told := await record(http, request_id))["outcome"] == "running":
            await asyncio.sleep(0.01)
    return told


async def post(http, path: str, body: dict, request_id: str) -> int:
    async with http.post(path, json=body, headers={"x-request-id": request_id}) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS)
async def test_an_answered_request(path, stream):
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer(fake.prompts.tokenizer.encode_text("15"))
        assert await post(http, path, BODIES[path] | {"stream": stream}, "r/1") == 200
        told = await record(http, "r/1")
    assert (told["outcome"], told["status"], told["error"]) == ("answered", 200, None)
    assert (told["path"], told["served"], told["lane"], told["found"]) == (path, "unmask-tiny", "unmask", "ready")
    assert told["finish"] == ["stop"]
    assert told["completion_tokens"] > 1
    assert told["prompt_tokens"] > 1
    assert (told["forwards"], told["blocks"]) == (2, 1)
    assert told["applied"]["rule"] == "threshold"
    phases = told["phases"]
    assert 0 <= phases["model_wait"] + phases["model_load"] < phases["first"] <= phases["total"] < 10


async def test_nothing_of_what_was_asked_and_answered():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer(fake.prompts.tokenizer.encode_text("15 16"))
        body = {"messages": [{"role": "user", "content": "Is xyzzy a word?"}], "user": "ann"}
        assert await post(http, CHAT, body | {"unmask": {"regex": "1[56] 1[67]"}}, "a") == 200
        assert await post(http, CHAT, body | {"stop": ["plugh"], "logit_bias": {"40": 1}}, "b") == 200
        async with http.get("/unmask/requests") as response:
            told = await response.text()
    for secret in ("xyzzy", "plugh", "15 16", "1[56]", "ann", '"40"'):
        assert secret not in told


async def test_refused_requests_tell_why():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        assert await post(http, CHAT, {"messages": 1}, "a") == 400
        assert await post(http, CHAT, BODIES[CHAT] | {"model": "other"}, "b") == 404
        assert await post(http, "/v1/chat/completion", {}, "c") == 404
        told = [await record(http, one) for one in "abc"]
    assert [one["error"]["code"] for one in told] == ["invalid_value", "model_not_found", "not_found"]
    assert [one["outcome"] for one in told] == ["failed"] * 3
    assert told[1]["asked"] == "other"
    assert told[1]["served"] == ""


async def test_an_error_within_a_stream_and_a_client_that_leaves():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        asking = asyncio.create_task(post(http, CHAT, BODIES[CHAT], "a"))
        await until(lambda: len(fake.engine.submitted) == 1)
        assert (await record(http, "a"))["outcome"] == "running"
        fake.engine.say(CanvasEvent.failure(fake.engine.submitted[0].request_id, "engine_fault", "It stumbled."))
        assert await asking == 200
        told = await record(http, "a")
        assert (told["outcome"], told["error"]) == ("failed", {"code": "engine_fault", "message": "It stumbled."})
        for name, stream in (("b", True), ("c", False)):
            seen = len(fake.engine.submitted)
            asking = asyncio.create_task(post(http, CHAT, BODIES[CHAT] | {"stream": stream}, name))
            await until(lambda seen=seen: len(fake.engine.submitted) > seen)
            asking.cancel()
            told = await ended(http, name)
            assert (told["outcome"], told["finish"], told["error"]) == ("left", ["cancelled"], None)


async def test_the_wait_for_a_model_is_told_apart_from_its_load():
    engine = ScriptedEngine()
    entry = SlowEntry(engine)
    engine.answer([40])
    async with listening(House([entry]), keep_alive_seconds=0.05) as url, aiohttp.ClientSession(url) as http:
        asking = asyncio.create_task(post(http, CHAT, BODIES[CHAT], "a"))
        await until(lambda: entry.loading == 1)
        await asyncio.sleep(0.4)
        entry.outcome.set_result(None)
        assert await asking == 200
        told = await record(http, "a")
    assert told["found"] == "absent"
    phases = told["phases"]
    assert phases["model_wait"] < 0.3 < phases["model_load"] <= phases["first"] <= phases["total"]


async def test_a_load_that_fails_and_a_client_that_does_not_wait_for_one():
    entry = SlowEntry(ScriptedEngine())
    async with listening(House([entry]), keep_alive_seconds=0.05) as url, aiohttp.ClientSession(url) as http:
        for name, stream in (("b", True), ("c", False)):
            asking = asyncio.create_task(post(http, CHAT, BODIES[CHAT] | {"stream": stream}, name))
            await until(lambda: entry.loading == 1)
            await asyncio.sleep(0.15)
            asking.cancel()
            await until(lambda: entry.loading == 0)
            told = await ended(http, name)
            assert (told["outcome"], told["error"]) == ("left", None)
            assert told["phases"]["model_load"] > 0.1
        entry.outcome.set_exception(ModelLoadFailedError("The model is broken."))
        await post(http, CHAT, BODIES[CHAT], "a")
        told = await record(http, "a")
        assert (told["outcome"], told["error"]["code"]) == ("failed", "model_load_failed")


async def test_the_newest_come_first_and_other_than_posts_are_not_there():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer([40])
        for number in range(4):
            await post(http, CHAT, BODIES[CHAT], f"r{number}")
            await http.get("/v1/models")
        async with http.get("/unmask/requests?limit=3") as response:
            assert [one["id"] for one in (await response.json())["requests"]] == ["r3", "r2", "r1"]
        for query in ("limit=0", "limit=x", f"limit={MOST_REQUESTS + 1}", "other=1"):
            async with http.get(f"/unmask/requests?{query}") as response:
                assert response.status == 400
        async with http.get("/unmask/requests/none") as response:
            assert (response.status, (await response.json())["error"]["code"]) == (404, "request_not_found")


def test_it_is_bounded_and_knows_the_newest_of_an_id():
    journal = Journal(most=3)
    for number in range(5):
        journal.add(RequestRecord(id="same" if number else "first", at=float(number), path="/", key=""))
    assert journal.find("first") is None
    assert journal.find("same").at == 4
    assert [one.at for one in journal.newest(10)] == [4, 3, 2]


async def test_who_may_ask(tmp_path):
    """Whoever has no key leaves no record: nobody's is pushed out by it."""
    keys = {scope: new_secret() for scope in ("manage", "generate")}
    path = tmp_path / "keys.json"
    key_file.write(path, [Key(name=scope, sha256=digest(keys[scope].encode()), scopes=(scope,)) for scope in keys])
    async with serving(keys=path) as fake:
        fake.engine.answer([40])
        sessions = {name: {"authorization": f"Bearer {secret}"} for name, secret in keys.items()}
        async with aiohttp.ClientSession(fake.url, headers=sessions["generate"]) as user:
            assert await post(user, CHAT, BODIES[CHAT], "mine") == 200
            for method, where in (
                ("GET", "/unmask/models"),
                ("GET", "/unmask/requests"),
                ("GET", "/unmask/requests/mine"),
                ("POST", "/unmask/models/unmask-tiny/stop"),
                ("POST", "/unmask/models/unmask-tiny/load"),
                ("GET", "/unmask/models/unmask-tiny/log"),
            ):
                async with user.request(method, where) as response:
                    assert (response.status, (await response.json())["error"]["code"]) == (403, "insufficient_scope")
        async with aiohttp.ClientSession(fake.url) as stranger:
            assert await post(stranger, CHAT, BODIES[CHAT], "strange") == 401
        async with aiohttp.ClientSession(fake.url, headers=sessions["manage"]) as operator:
            async with operator.get("/unmask/requests") as response:
                assert [(one["id"], one["key"]) for one in (await response.json())["requests"]] == [
                    ("mine", "generate")
                ]
            assert await post(operator, CHAT, BODIES[CHAT], "x") == 403


async def test_several_answers_are_summed_up():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer([40])
        assert await post(http, "/v1/completions", {"prompt": ["a", "b", "c"]}, "a") == 200
        told = await record(http, "a")
    assert (told["forwards"], told["finish"]) == (6, ["stop"] * 3)

"""Answers that are kept: told again as they were, to nobody else, and for nothing but the same request."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.upstream.fake import Script, chunk, endpoint, fake, stream, usage
from tests.serving.fakes import serving, until
from tests.serving.observers.admissions import Scripted, run
from tests.serving.parts import TOKENIZER, cuts, deltas
from tests.serving.processes import serve
from tests.serving.test_lanes import LISTING
from tests.serving.wire import events, text_of
from unmask.answers.chat import Chat, Continuation, Length
from unmask.answers.tools import Tool, ToolChoice
from unmask.events import CanvasEvent, RequestStats
from unmask.params import GenerationParams
from unmask.serving.lane_entry import LaneEntry
from unmask.serving.observers import response_cache
from unmask.serving.observers.response_cache import ResponseCache, key_of
from unmask.serving.security import key_file
from unmask.serving.security.key import Key, digest, new_secret

CHAT = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}


def keys(*asked: Chat | Continuation, weights="1", tenant="") -> list[bytes | None]:
    return [key_of("m", weights, one, tenant) for one in asked]


def recorded(told, cache: ResponseCache, key: bytes = b"k") -> list:
    """What a request is told while its answer is being kept."""
    return run(cache.keeping(key, Scripted([(0, delta) for delta in told])))


@given(cuts(), st.booleans(), st.booleans(), st.sampled_from(["stop", "length"]))
def test_what_is_replayed_is_what_was_told(text, frames, logprobs, finish):
    told = deltas(*text, frames=frames, logprobs=logprobs, finish=finish)
    cache = ResponseCache(2**20)
    assert recorded(told, cache) == told
    for _ in range(2):
        again = run(cache.find(b"k"))
        assert [part for delta in again for part in delta.parts] == [part for delta in told for part in delta.parts]
        assert [one for delta in again for one in delta.logprobs or ()] == [
            one for delta in told for one in delta.logprobs or ()
        ]
        assert [delta.frame for delta in again] == [None] * len(again)
        assert again[-1].answer.completion.replayed
        assert again[-1].answer.content == told[-1].answer.content
        assert again[-1].answer.completion.completion_tokens == told[-1].answer.completion.completion_tokens


def test_a_request_is_known_by_all_that_it_asks():
    params = GenerationParams(temperature=0)
    messages = [{"role": "user", "content": "hi"}]
    asked = [
        Chat(messages=messages, params=params),
        Chat(messages=[{"role": "user", "content": "ho"}], params=params),
        Chat(messages=[{"role": "system", "content": "hi"}], params=params),
        Chat(messages=messages, params=GenerationParams(temperature=0, max_tokens=5)),
        Chat(messages=messages, params=GenerationParams(temperature=0, stop=("x",))),
        Chat(messages=messages, params=GenerationParams(temperature=0, json_schema={"type": "string"})),
        Chat(messages=messages, params=GenerationParams(temperature=0, logit_bias={3: 1.0})),
        Chat(messages=messages, params=GenerationParams(temperature=1, seed=1)),
        Chat(messages=messages, params=GenerationParams(temperature=1, seed=2)),
        Chat(messages=messages, params=params, tools=[Tool("f")]),
        Chat(messages=messages, params=params, tools=[Tool("f", parameters={"type": "object"})]),
        Chat(messages=messages, params=params, tools=[Tool("f")], choice=ToolChoice("required")),
        Chat(messages=messages, params=params, thinking=True),
        Chat(messages=messages, params=params, prefill="Well"),
        Chat(messages=messages, params=params, copies=2),
        Chat(messages=messages, params=params, length=Length(all=True)),
        Continuation(params=params, texts=["hi"]),
        Continuation(params=params, texts=["h", "i"]),
        Continuation(params=params, texts=["hi"], echo=True),
        Continuation(params=params, ids=[[1, 2]]),
    ]
    found = keys(*asked)
    assert None not in found
    assert len(set(found)) == len(asked)
    assert keys(asked[0]) == found[:1]
    others = [keys(asked[0], tenant="somebody"), keys(asked[0], weights="2")]
    assert found[0] not in [key for other in others for key in other]


@pytest.mark.parametrize("params", [
    GenerationParams(), GenerationParams(temperature=0.7), GenerationParams(temperature=0, frames=True),
])  # fmt: skip
def test_what_may_differ_each_time_is_not_kept(params):
    assert keys(Chat(messages=[], params=params)) == [None]


def test_half_a_character_is_no_key():
    assert keys(Continuation(params=GenerationParams(temperature=0), texts=["\ud800"])) == [None]


@pytest.mark.parametrize("stats", [{"relaxed": {"threshold": 0.5}}, {}])
def test_answers_that_were_cut_short_or_relaxed_are_not_kept(stats):
    cache = ResponseCache(2**20)
    told = deltas(TOKENIZER.encode_text("one two three"), [1], finish="stop" if stats else "timeout")
    for name, value in stats.items():
        setattr(told[-1].answer.completion.stats, name, value)
    recorded(told, cache)
    assert cache.find(b"k") is None


def test_an_answer_that_is_not_waited_for_is_not_kept():
    cache = ResponseCache(2**20)
    told = deltas(TOKENIZER.encode_text("one two three"), [1, 2])
    admission = cache.keeping(b"k", Scripted([(0, delta) for delta in told]))
    with admission.running():
        asyncio.run(admission.next())
    assert cache.find(b"k") is None


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3000)), max_size=30))
def test_the_cache_never_takes_more_than_it_may(requests):
    """Those not asked for longest go first."""
    cache = ResponseCache(20_000)
    for number, length in requests:
        told = deltas(TOKENIZER.encode_text("x" * length), [])
        recorded(told, cache, bytes([number]))
        sizes = [kept.size for kept in cache._kept.values()]
        assert sum(sizes) <= 20_000
        assert cache._left == 20_000 - sum(sizes)
        assert max(sizes, default=0) <= 5_000


def test_what_was_asked_for_longest_ago_goes_first():
    cache = ResponseCache(100_000)
    told = deltas(TOKENIZER.encode_text("x" * 100), [])
    recorded(told, cache, b"0")
    fit = 100_000 // cache._kept[b"0"].size
    for number in range(1, fit):
        recorded(told, cache, b"%d" % number)
    assert cache.find(b"0") is not None
    recorded(told, cache, b"new")
    assert (cache.find(b"1"), cache.find(b"0") is None) == (None, False)


def test_one_that_fails_to_be_kept_is_told_all_the_same(monkeypatch):
    told = deltas(TOKENIZER.encode_text("one two three"), [1])
    monkeypatch.setattr(response_cache, "replace", None)
    cache = ResponseCache(2**20)
    assert recorded(told, cache) == told
    assert cache.find(b"k") is None


async def post(http, path, body, **headers):
    async with http.post(path, json=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def count(http, outcome: str) -> float:
    async with http.get("/metrics") as response:
        lines = (await response.text()).splitlines()
    found = [line for line in lines if line.startswith("unmask_response_cache_total") and f'"{outcome}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in found)


@pytest.mark.parametrize(("path", "body"), [
    (CHAT, ASK),
    ("/v1/completions", {"prompt": ["one", "two"], "temperature": 0, "logprobs": 1}),
    ("/v1/messages", ASK | {"max_tokens": 9, "model": "unmask-tiny"}),
    ("/v1/responses", {"input": "hi", "temperature": 0}),
    ("/api/generate", {"model": "unmask-tiny", "prompt": "hi", "stream": False, "options": {"temperature": 0}}),
])  # fmt: skip
async def test_in_every_dialect(path, body):
    async with serving(response_cache=2**20) as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer([40, 41])
        first = await post(http, path, body)
        asked = len(fake.engine.submitted)
        second = await post(http, path, body)
        assert len(fake.engine.submitted) == asked
        assert (await count(http, "hit"), await count(http, "miss")) == (1, 1)
    reports = [one.get("unmask") or one["choices"][0]["unmask"] for one in (first, second)]
    assert [report.get("cached_response") for report in reports] == [None, True]
    assert first.get("usage") == second.get("usage")


async def test_off_unless_asked_for():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer([40, 41])
        for _ in range(2):
            assert "cached_response" not in (await post(http, CHAT, ASK))["unmask"]
        assert len(fake.engine.submitted) == 2


async def test_never_across_keys_nor_users_and_no_budget_is_charged(tmp_path):
    secrets = [new_secret(), new_secret()]
    file = tmp_path / "keys.json"
    made = [Key(name=f"k{n}", sha256=digest(one.encode()), tokens_per_day=100) for n, one in enumerate(secrets)]
    key_file.write(file, made)
    async with serving(response_cache=2**20, keys=file) as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.answer([40, 41])
        for secret, user, asked in ((0, "", 1), (0, "", 1), (1, "", 2), (1, "", 2), (1, "u", 3), (0, "", 3)):
            async with http.post(
                CHAT,
                json=ASK | ({"user": user} if user else {}),
                headers={"authorization": f"Bearer {secrets[secret]}"},
            ) as response:
                answer = await response.json()
                assert response.status == 200
            assert len(fake.engine.submitted) == asked
        async with http.post(
            CHAT, json=ASK | {"user": "v"}, headers={"authorization": f"Bearer {secrets[0]}"}
        ) as response:
            left = int(response.headers["x-ratelimit-remaining-tokens"])
        assert left == 100 - 2 * answer["usage"]["total_tokens"]  # of two answers that this key had computed, of four


async def test_failures_are_not_kept():
    async with serving(response_cache=2**20) as fake, aiohttp.ClientSession(fake.url) as http:
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent.failure(command.request_id, "engine_unavailable", "gone")
        )
        for _ in range(2):
            async with http.post(CHAT, json=ASK) as response:
                assert response.status >= 500
        fake.engine.on_submit = lambda command: None
        asked = asyncio.create_task(http.post(CHAT, json=ASK))
        await until(lambda: len(fake.engine.submitted) == 3)
        asked.cancel()
        await until(lambda: len(fake.engine.cancelled) == 1)
        fake.engine.answer([40])
        assert "cached_response" not in (await post(http, CHAT, ASK))["unmask"]


async def test_a_stream_replays_its_parts():
    async with serving(response_cache=2**20) as fake, aiohttp.ClientSession(fake.url) as http:

        def say(command):
            name = command.request_id
            for ids in ([40], [41, 42], [43]):
                fake.engine.say(CanvasEvent(name, ids, RequestStats(forwards=1, committed=4)))
            stats = RequestStats(forwards=2, committed=5)
            fake.engine.say(CanvasEvent(name, [], stats, finish="stop", ended_by_token=True))

        fake.engine.on_submit = say
        bodies = []
        for _ in range(2):
            async with http.post(CHAT, json=ASK | {"stream": True}) as response:
                bodies.append(events(await response.read()))
        whole = await post(http, CHAT, ASK)
        assert len(fake.engine.submitted) == 1
    first, second = bodies
    assert text_of(first) == text_of(second) == whole["choices"][0]["message"]["content"]
    assert [one["choices"][0]["delta"] for one in first] == [one["choices"][0]["delta"] for one in second]
    assert second[-1]["unmask"].pop("cached_response")
    assert first[-1]["unmask"] == second[-1]["unmask"]


async def test_on_a_real_server():
    with serve("--response-cache", "1MiB") as server:
        async with aiohttp.ClientSession(server.url) as http:
            body = {"messages": [{"role": "user", "content": "What is 7 + 8?"}], "temperature": 0.5, "seed": 3}
            first, second = [await post(http, CHAT, body) for _ in range(2)]
            async with http.post(CHAT, json=body | {"stream": True}) as response:
                streamed = events(await response.read())
    assert first["choices"] == second["choices"]
    assert text_of(streamed) == first["choices"][0]["message"]["content"]
    assert second["unmask"].pop("cached_response") is True
    assert second["unmask"] == first["unmask"]
    assert any("finish=cached" in line for line in server.log), json.dumps(server.log)


class Counted(LaneEntry):
    """A lane at ``url`` whose model is read from ``file``; its loads are counted."""

    def __init__(self, url: str, file: Path) -> None:
        async def connect():
            self.loads += 1
            return endpoint(url), None

        super().__init__(LISTING, connect, capacity=8, files=[file])
        self.loads = 0


async def test_a_model_is_not_loaded_for_an_answer_that_was_kept(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    async with fake(Script([stream(chunk(content="Once"), chunk("stop"), usage(7, 3))])) as far:
        entry = Counted(far.url, file)
        async with serving(entry, response_cache=2**20) as server, aiohttp.ClientSession(server.url) as http:

            async def ask(path=CHAT, **more):
                said = ASK | {"model": "m"} | more
                async with http.post(path, json=said) as response:
                    assert response.status == 200, await response.text()
                    return '"cached_response":true' in await response.text()

            async def state():
                async with http.get("/unmask/models") as response:
                    (model,) = [one for one in (await response.json())["models"] if one["name"] == "m"]
                return model["state"]

            assert not await ask()
            async with http.post("/unmask/models/m/stop") as response:
                assert response.status == 200
            assert await ask()
            assert await ask(stream=True)
            assert (entry.loads, await state()) == (1, "absent")
            async with http.get("/unmask/requests") as response:
                newest = (await response.json())["requests"][0]
            assert (newest["served"], newest["lane"], newest["found"]) == ("m", "my-lane", "absent")
            assert newest["finish"] == ["cached"]

            assert not await ask(user="somebody")
            assert (entry.loads, await state()) == (2, "ready")
            assert await ask()  # of the same weights, read again
            async with http.post("/unmask/models/m/stop") as response:
                assert response.status == 200
            file.write_bytes(b"others!")
            assert not await ask()
            assert entry.loads == 3


async def test_weights_that_change_while_they_are_read_are_nobodys(tmp_path):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    entry = Counted("http://127.0.0.1:1/v1", file)
    resident = await entry.load(lambda share: None)
    await resident.close()
    assert entry.weights == await entry.weights_there()
    written = file.stat().st_mtime_ns
    file.write_bytes(b"another")
    os.utime(file, ns=(written, written))  # as copying tools do
    assert entry.weights != await entry.weights_there()

    async def changing():
        file.write_bytes(b"others!")
        return endpoint(), None

    entry._connect = changing
    resident = await entry.load(lambda share: None)
    await resident.close()
    assert entry.weights != await entry.weights_there()
    file.unlink()
    assert await entry.weights_there() is None

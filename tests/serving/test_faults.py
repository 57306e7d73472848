"""What a scripted engine lets us see: full queues, faults, silence, keys, dead engines."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec
import openai
import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.serving.fakes import finished, serving, until
from tests.serving.wire import events
from unmask.engine.text import CellDecoder
from unmask.errors import InvalidValueError, QueueFullError
from unmask.events import CanvasEvent, Frame, RequestStats
from unmask.serving.dialects.openai_common.envelope import envelope
from unmask.serving.errors import ErrorResponder

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


async def error_of(response) -> tuple[int, str]:
    return response.status, (await response.json())["error"]["code"]


async def samples(session, fake) -> list[Sample]:
    async with session.get(f"{fake.url}/metrics") as response:
        text = await response.text()
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


async def ends(session, fake) -> dict[str, float]:
    """Ended requests by how they ended; clients that left are those that were cancelled."""
    found = await samples(session, fake)
    counts = {s.labels["finish"]: s.value for s in found if s.name == "unmask_requests_total"}
    assert [s.value for s in found if s.name == "unmask_disconnects_total"] == [counts.get("cancelled", 0)]
    return counts


async def discarded(session, fake) -> float:
    (value,) = [s.value for s in await samples(session, fake) if s.name == "unmask_tokens_discarded_total"]
    return value


async def test_a_full_queue_is_429_with_retry_after(session):
    async with serving(capacity=3) as fake:
        url = f"{fake.url}/v1/completions"
        first = asyncio.create_task(session.post(url, json={"prompt": ["a", "b"], "stream": True}))
        second = asyncio.create_task(session.post(url, json={"prompt": "c"}))
        await until(lambda: len(fake.engine.submitted) == 3)
        for body in ({"prompt": "d"}, {"prompt": "d", "stream": True}):
            async with session.post(url, json=body) as response:
                assert await error_of(response) == (429, "queue_full")
                assert 1 <= int(response.headers["retry-after"]) <= 600
        async with session.post(url, json={"prompt": ["a", "b", "c", "d"]}) as response:
            assert await error_of(response) == (400, "invalid_value")
        fake.engine.say(*(finished(command.request_id, [40]) for command in fake.engine.submitted))
        for task in (first, second):
            async with await task as response:
                assert response.status == 200
                await response.read()
        fake.engine.answer([40])
        async with session.post(url, json={"prompt": ["a", "b", "c"]}) as response:
            assert response.status == 200


async def test_places_are_given_back_when_clients_leave(session):
    async with serving(capacity=1) as fake:
        for stream in (True, False, True, False):
            count = len(fake.engine.submitted)
            task = asyncio.create_task(
                session.post(f"{fake.url}/v1/completions", json={"prompt": "a", "stream": stream})
            )
            await until(lambda count=count: len(fake.engine.submitted) == count + 1)
            if stream:
                (await task).close()
            else:
                task.cancel()
            await until(lambda count=count: len(fake.engine.cancelled) == count + 1)
        assert fake.engine.cancelled == [command.request_id for command in fake.engine.submitted]


async def test_a_fault_before_the_first_byte_is_an_http_error(session):
    async with serving() as fake:
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent.failure(command.request_id, "engine_fault", "It broke.")
        )
        async with session.post(f"{fake.url}/v1/completions", json={"prompt": "a"}) as response:
            assert await error_of(response) == (500, "engine_fault")


async def test_a_fault_in_a_stream_is_an_error_event_and_the_end(session):
    async with serving() as fake:
        request = {**CHAT, "stream": True}
        async with session.post(f"{fake.url}/v1/chat/completions", json=request) as response:
            await until(lambda: bool(fake.engine.submitted))
            name = fake.engine.submitted[0].request_id
            fake.engine.say(CanvasEvent(name, [40], RequestStats(forwards=1)))
            fake.engine.say(CanvasEvent.failure(name, "engine_fault", "It broke."))
            body = await response.read()
        assert body.endswith(b'"code":"engine_fault"}}\n\n')
        assert b"[DONE]" not in body
        assert b'"finish_reason":"' not in body
        client = openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="x", max_retries=0)
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent.failure(command.request_id, "engine_unavailable", "It died.")
        )
        async with client:
            with pytest.raises(openai.APIError, match="It died"):
                async for _ in await client.chat.completions.create(model="unmask-tiny", **request):
                    pass


@pytest.mark.parametrize("stream", [False, True])
async def test_a_bug_is_a_logged_500_and_the_server_lives(session, stream):
    def bug(command):
        raise ZeroDivisionError("a bug")

    async with serving() as fake:
        fake.engine.on_submit = bug
        with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as log:
            async with session.post(f"{fake.url}/v1/completions", json={"prompt": "a", "stream": stream}) as response:
                assert response.status == 500
                body = await response.read()
        assert b'"code":"internal_error"' in body
        assert b"ZeroDivision" not in body
        (entry,) = log
        assert isinstance(entry["exc_info"], ZeroDivisionError)
        assert entry["request_id"] == response.headers["x-request-id"]
        async with session.get(f"{fake.url}/health") as response:
            assert response.status == 200
        assert await ends(session, fake) == {"error": 1}


async def test_a_bug_in_a_stream_is_an_error_event_and_a_failure(session, monkeypatch):
    def bug(self, canvas):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(CellDecoder, "decode", bug)
    async with serving() as fake:
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent(command.request_id, [40], RequestStats(forwards=1, committed=1), frame=Frame([40, 6]))
        )
        body = {"prompt": "a", "stream": True, "unmask": {"canvas": "frames"}}
        with structlog.testing.capture_logs() as log:
            async with session.post(f"{fake.url}/v1/completions", json=body) as response:
                assert response.status == 200
                last = (await response.read()).split(b"\n\n")[-2]
        assert b'"code":"internal_error"' in last
        assert isinstance(log[0]["exc_info"], ZeroDivisionError)
        assert await ends(session, fake) == {"error": 1}
        assert fake.engine.cancelled == [fake.engine.submitted[0].request_id]


async def test_every_end_is_counted_with_what_was_thrown_away(session):
    async with serving() as fake:
        url = f"{fake.url}/v1/completions"
        stats = RequestStats(forwards=3, committed=9)
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent(command.request_id, [40, 41], stats, "length")
        )
        async with session.post(url, json={"prompt": ["a", "b"]}) as response:
            answer = await response.json()
        assert [choice["unmask"]["discarded_tokens"] for choice in answer["choices"]] == [7, 7]
        assert [choice["unmask"]["ttfb_ms"] for choice in answer["choices"]] == [None, None]
        assert await discarded(session, fake) == 14
        fake.engine.on_submit = lambda command: fake.engine.say(CanvasEvent(command.request_id, [40], stats))
        async with session.post(url, json={"prompt": "a", "stream": True}) as response:
            await response.content.readuntil(b"\n\n")
        await until(lambda: len(fake.engine.cancelled) == 1)
        assert await ends(session, fake) == {"length": 2, "cancelled": 1}
        assert await discarded(session, fake) == 14 + 9


async def test_one_of_several_prompts_fails_the_request_and_leaves_nothing_behind(session):
    async with serving(capacity=3) as fake:
        task = asyncio.create_task(session.post(f"{fake.url}/v1/completions", json={"prompt": ["a", "b", "c"]}))
        await until(lambda: len(fake.engine.submitted) == 3)
        names = [command.request_id for command in fake.engine.submitted]
        fake.engine.say(finished(names[0], [40]), CanvasEvent.failure(names[1], "engine_fault", "It broke."))
        async with await task as response:
            assert await error_of(response) == (500, "engine_fault")
        assert fake.engine.cancelled == [names[2]]
        assert await ends(session, fake) == {"stop": 1, "error": 2}


async def test_a_stop_string_ends_one_prompt_and_not_its_neighbours(session):
    async with serving() as fake:
        x, y = (fake.prompts.tokenizer.encode_text(text)[0] for text in "xy")
        body = {"prompt": ["a", "b"], "stop": "x"}
        task = asyncio.create_task(session.post(f"{fake.url}/v1/completions", json=body))
        await until(lambda: len(fake.engine.submitted) == 2)
        first, second = (command.request_id for command in fake.engine.submitted)
        fake.engine.say(
            CanvasEvent(first, [y, x, y], RequestStats(forwards=1, committed=3)),
            CanvasEvent(second, [y], RequestStats(forwards=1, committed=1)),
        )
        fake.engine.say(CanvasEvent(first, [y], RequestStats(forwards=2, committed=4)))  # on its way already
        await until(lambda: fake.engine.cancelled == [first])
        fake.engine.say(CanvasEvent(second, [y], RequestStats(forwards=3, committed=2), "length"))
        async with await task as response:
            answer = await response.json()
        assert [choice["text"] for choice in answer["choices"]] == ["y", "yy"]
        assert [choice["unmask"]["discarded_tokens"] for choice in answer["choices"]] == [1, 0]


def test_each_dialect_may_have_its_own_error_envelope():
    class Plain(msgspec.Struct):
        text: str

    errors = ErrorResponder({"": envelope, "/v1/plain": lambda problem: Plain(problem.message)})
    refusal = InvalidValueError("No.", param="x")
    assert errors.response("/v1/plain/x", refusal).body == b'{"text":"No."}'
    assert b'"param":"x"' in errors.response("/v1/other", refusal).body
    assert errors.response("/v1/plain", QueueFullError("Full.", retry_after=7)).headers["retry-after"] == "7"


async def test_silence_is_filled_with_comments(session):
    async with serving(keep_alive_seconds=0.05) as fake:
        async with session.post(f"{fake.url}/v1/chat/completions", json=CHAT | {"stream": True}) as response:
            await until(lambda: len(fake.engine.submitted) == 1)
            await asyncio.sleep(0.3)
            fake.engine.say(finished(fake.engine.submitted[0].request_id, [40]))
            body = await response.read()
        assert body.count(b": keep-alive\n\n") >= 3
        assert len(events(body)) == 3  # comments disturb nothing


async def test_a_dead_engine_is_503_everywhere_but_health(session):
    async with serving() as fake:
        await fake.engine.close()
        for path in ("/v1/completions", "/v1/chat/completions"):
            body = {"prompt": "a"} if path == "/v1/completions" else CHAT
            async with session.post(fake.url + path, json=body | {"stream": True}) as response:
                assert await error_of(response) == (503, "engine_unavailable")
        async with session.get(f"{fake.url}/ready") as response:
            assert await error_of(response) == (503, "engine_unavailable")
        async with session.get(f"{fake.url}/health") as response:
            assert response.status == 200


async def test_a_key_guards_all_but_health_ready_and_metrics(session):
    async with serving(api_key="s3cret") as fake:
        fake.engine.answer([40])
        for path in ("/v1/models", "/tokenizer_info", "/nowhere", "/openapi.json"):
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "s3cret"}):
                async with session.get(fake.url + path, headers=headers) as response:
                    assert await error_of(response) == (401, "invalid_api_key")
        for path in ("/health", "/ready", "/metrics"):
            async with session.get(fake.url + path) as response:
                assert response.status == 200
        async with openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="s3cret") as client:
            assert (await client.models.list()).data[0].id == "unmask-tiny"
            answer = await client.chat.completions.create(model="unmask-tiny", **CHAT)
            assert answer.choices[0].finish_reason == "stop"
        async with openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="bad", max_retries=0) as client:
            with pytest.raises(openai.AuthenticationError):
                await client.models.list()


async def test_no_cross_origin_headers(session):
    async with serving() as fake:
        origin = {"origin": "http://evil.example", "access-control-request-method": "POST"}
        for method in ("OPTIONS", "POST"):
            async with session.request(
                method, f"{fake.url}/v1/completions", headers=origin, json={"prompt": ""}
            ) as response:
                assert not any(name.lower().startswith("access-control") for name in response.headers)
                assert response.status >= 400

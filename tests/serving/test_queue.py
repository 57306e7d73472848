"""The queue of a live server: who is turned away, who goes first, and what time ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import aiohttp
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.fakes import serving, until
from tests.serving.processes import Server, serve
from tests.serving.wire import events, finish_of, text_of
from unmask.events import CanvasEvent, RequestStats

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "one two three", "max_tokens": 900, "unmask": {"rule": "low_confidence", "end_tokens": "never"}}
SHORT = {"prompt": "one two", "max_tokens": 8, "ignore_eos": True, "unmask": {"rule": "low_confidence"}}


def asking(body: dict, **options) -> dict:
    return body | {"unmask": body["unmask"] | options}


@pytest.fixture(scope="module")
def narrow() -> Iterator[Server]:
    """One request runs, two wait, two seconds at most."""
    with serve("--max-running", "1", "--max-waiting", "2", "--queue-timeout", "2") as server:
        yield server


@pytest.fixture
async def session(narrow):
    async with aiohttp.ClientSession(narrow.url) as session:
        yield session


async def count(session, name: str, **labels) -> float:
    async with session.get("/metrics") as response:
        families = list(text_string_to_metric_families(await response.text()))
    found = (s for f in families for s in f.samples if s.name == name)
    return sum(s.value for s in found if labels.items() <= s.labels.items())


async def occupied(session, running: int, waiting: int) -> None:
    async with asyncio.timeout(10):
        while (
            await count(session, "unmask_requests_running") != running
            or await count(session, "unmask_requests_waiting") != waiting
        ):
            await asyncio.sleep(0.01)


async def post(session, body) -> tuple[int, dict, dict]:
    async with session.post(COMPLETIONS, json=body) as response:
        return response.status, dict(response.headers), await response.json()


async def leave(*tasks: asyncio.Task) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_beyond_the_queue_it_is_429_and_says_when_to_come_back(session):
    running = asyncio.create_task(post(session, LONG))
    await occupied(session, 1, 0)
    waiting = [asyncio.create_task(post(session, LONG)) for _ in range(2)]
    await occupied(session, 1, 2)
    before = await count(session, "unmask_requests_rejected_total", reason="queue_full")
    status, headers, body = await post(session, SHORT)
    assert (status, body["error"]["code"], body["error"]["type"]) == (429, "queue_full", "rate_limit_error")
    assert 1 <= int(headers["Retry-After"]) <= 600
    assert await count(session, "unmask_requests_rejected_total", reason="queue_full") == before + 1
    await leave(running, *waiting)
    await occupied(session, 0, 0)
    status, _, _ = await post(session, SHORT)
    assert status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_one_that_waits_too_long_is_told_so(session, stream):
    running = asyncio.create_task(post(session, LONG))
    await occupied(session, 1, 0)
    before = await count(session, "unmask_timeouts_total", phase="waiting")
    begun = time.monotonic()
    if stream:
        async with session.post(COMPLETIONS, json=SHORT | {"stream": True}) as response:
            body = await response.text()
        assert '"code":"queue_timeout"' in body
        assert "[DONE]" not in body
    else:
        status, headers, answer = await post(session, SHORT)
        assert (status, answer["error"]["code"]) == (503, "queue_timeout")
        assert 1 <= int(headers["Retry-After"]) <= 600
    assert 2 <= time.monotonic() - begun < 10
    assert await count(session, "unmask_timeouts_total", phase="waiting") == before + 1
    assert not running.done()
    await leave(running)
    await occupied(session, 0, 0)


async def test_one_that_waits_may_leave_before_its_time_is_over(session):
    running = asyncio.create_task(post(session, LONG))
    await occupied(session, 1, 0)
    waiting = asyncio.create_task(post(session, SHORT))
    await occupied(session, 1, 1)
    await leave(waiting)
    await occupied(session, 1, 0)
    await leave(running)
    await occupied(session, 0, 0)


async def test_a_running_request_ends_with_what_is_decided_and_says_why(session):
    """Streamed and whole: a valid finish for any client, the truth in the extension, and text from the same answer."""
    cut = asking(LONG, timeout_ms=400)
    before = await count(session, "unmask_timeouts_total", phase="running")
    status, _, whole = await post(session, cut)
    async with session.post(COMPLETIONS, json=cut | {"stream": True}) as response:
        chunks = events(await response.read())
    assert status == 200
    assert whole["choices"][0]["finish_reason"] == finish_of(chunks) == "length"
    (last,) = [chunk for chunk in chunks if "unmask" in chunk]
    for report in (whole["unmask"], last["unmask"]):
        assert report["finish"] == "timeout"
        assert report["total_ms"] >= 400
        assert report["applied"]["timeout_ms"] == 400
    texts = sorted((whole["choices"][0]["text"], text_of(chunks)), key=len)
    assert texts[0]
    assert texts[1].startswith(texts[0])
    assert 0 < whole["usage"]["completion_tokens"] < 900
    assert await count(session, "unmask_timeouts_total", phase="running") == before + 2


async def test_the_response_says_whether_a_deadline_was_met(session):
    _, _, met = await post(session, asking(SHORT, deadline_ms=60_000))
    _, _, missed = await post(session, asking(SHORT, deadline_ms=1))
    _, _, none = await post(session, SHORT)
    assert [answer["unmask"]["deadline_met"] for answer in (met, missed, none)] == [True, False, None]
    assert missed["unmask"]["finish"] == "length", "a deadline ends nothing"
    assert none["unmask"]["applied"]["priority"] == "interactive"
    assert await count(session, "unmask_deadlines_total", met="true") == 1
    assert await count(session, "unmask_deadlines_total", met="false") == 1


@pytest.fixture(scope="module")
def single() -> Iterator[Server]:
    """One request at a time, and many may wait."""
    with serve("--max-running", "1", "--request-timeout", "60", "--service-class", "economy=0.5@0.25") as server:
        yield server


async def finishing_order(url: str, bodies: dict[str, dict]) -> list[str]:
    """Names in the order in which answers came, all of them sent in this order while another request ran."""
    async with aiohttp.ClientSession(url) as session:
        running = asyncio.create_task(post(session, LONG))
        await occupied(session, 1, 0)
        finished: list[str] = []

        async def ask(name: str) -> None:
            status, _, _ = await post(session, bodies[name])
            assert status == 200
            finished.append(name)

        tasks = []
        for number, name in enumerate(bodies, 1):
            tasks.append(asyncio.create_task(ask(name)))
            await occupied(session, 1, number)
        await leave(running)
        await asyncio.gather(*tasks)
        return finished


async def test_interactive_overtakes_batch_and_deadlines_order_the_rest(single):
    batch = asking(SHORT, priority="batch")
    order = await finishing_order(
        single.url,
        {
            "batch": batch,
            "hurried batch": asking(batch, deadline_ms=1),
            "interactive": SHORT,
            "hurried": asking(SHORT, deadline_ms=1),
        },
    )
    assert order == ["hurried", "interactive", "hurried batch", "batch"]


async def test_users_take_turns(single):
    bodies = {f"flood {number}": SHORT | {"user": "flood"} for number in range(6)} | {"one": SHORT | {"user": "one"}}
    assert (await finishing_order(single.url, bodies)).index("one") <= 1


async def test_a_request_may_not_ask_for_more_time_than_the_server_gives(single):
    async with aiohttp.ClientSession(single.url) as session:
        status, _, answer = await post(session, asking(SHORT, timeout_ms=60_001))
        assert (status, answer["error"]["param"]) == (400, "unmask.timeout_ms")
        _, _, answer = await post(session, SHORT)
        assert answer["unmask"]["applied"]["timeout_ms"] == 60_000


async def test_a_service_class_tells_the_threshold_it_gave(single):
    body = {
        "prompt": "one two three",
        "max_tokens": 32,
        "ignore_eos": True,
        "unmask": {"rule": "threshold", "threshold": 0.9},
    }
    economy = asking(body, service_class="economy")
    async with aiohttp.ClientSession(single.url) as session:
        async with session.get("/v1/models") as response:
            (card,) = (await response.json())["data"]
        assert card["unmask"]["service_classes"] == {"economy": {"floor": 0.5, "relaxes_at": 0.25}}
        _, _, alone = await post(session, economy)
        running = asyncio.create_task(post(session, LONG))
        await occupied(session, 1, 0)
        relaxed = asyncio.create_task(post(session, economy))
        await occupied(session, 1, 1)
        plain = asyncio.create_task(post(session, body))  # it waits while the other is admitted: full load
        await occupied(session, 1, 2)
        await leave(running)
        (_, _, relaxed), (_, _, plain) = await asyncio.gather(relaxed, plain)
        _, _, by_hand = await post(session, asking(body, threshold=0.5))
    applied = [answer["unmask"]["applied"] for answer in (alone, relaxed, plain)]
    assert [one["threshold"] for one in applied] == [0.9, 0.5, 0.9]
    assert [one.get("service_class") for one in applied] == ["economy", "economy", None]
    assert by_hand["choices"] == relaxed["choices"]
    assert plain["choices"] == alone["choices"]


async def test_the_official_client_knows_the_refusal():
    message = {"role": "user", "content": "a"}
    async with serving(capacity=0) as fake:
        client = openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key="x", max_retries=0)
        async with client:
            with pytest.raises(openai.RateLimitError):
                await client.chat.completions.create(model="unmask-tiny", messages=[message])


async def test_an_engine_that_is_down_says_when_to_ask_again():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as session:
        fake.engine.running = False
        status, headers, answer = await post(session, SHORT)
        assert (status, answer["error"]["code"]) == (503, "engine_unavailable")
        assert 1 <= int(headers["Retry-After"]) <= 30
        assert await count(session, "unmask_requests_rejected_total", reason="engine_unavailable") == 1


async def test_the_error_of_an_estimate_is_measured():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as session:
        task = asyncio.create_task(post(session, SHORT))
        await until(lambda: bool(fake.engine.submitted))
        stats = RequestStats(forwards=10, blocks=1, committed=8, estimates=(15.0, None))
        fake.engine.say(CanvasEvent(fake.engine.submitted[0].request_id, [40] * 8, stats, "length"))
        _, _, answer = await task
        assert answer["unmask"]["estimated_forwards"] == 15.0
        assert await count(session, "unmask_estimate_relative_error_sum", when="arrival") == 0.5
        assert await count(session, "unmask_estimate_relative_error_count", when="first_block") == 0


async def test_terms_reach_the_engine():
    async with serving() as fake, aiohttp.ClientSession(fake.url) as session:
        fake.engine.answer([40])
        headers = {"authorization": "Bearer secret"}
        for body in (SHORT, SHORT | {"user": "ann"}, asking(SHORT, priority="batch", deadline_ms=250, timeout_ms=900)):
            async with session.post(COMPLETIONS, json=body, headers=headers) as response:
                assert response.status == 200
        plain, ann, batch = (command.terms for command in fake.engine.submitted)
        assert plain.tenant == batch.tenant != ann.tenant
        assert (batch.priority, batch.deadline, batch.timeout) == ("batch", 0.25, 0.9)

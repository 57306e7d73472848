"""What is written of each request, and what never is."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
import structlog

from tests.serving.fakes import serving, until
from tests.serving.processes import serve
from unmask.events import CanvasEvent, RequestStats

TEXT = "/v1/completions"


def of_requests(logger, method, entry):
    if entry["event"].startswith("model "):
        raise structlog.DropEvent
    return entry


@pytest.fixture
def log():
    with structlog.testing.capture_logs(processors=[of_requests, structlog.contextvars.merge_contextvars]) as entries:
        yield entries


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as session:
        yield session


async def test_a_line_for_each_request(session, log):
    async with serving(access_log=True, api_key="s3cret") as fake:
        fake.engine.answer([40, 41])
        headers = {"authorization": "Bearer s3cret"}
        body = {"prompt": ["one two", "three"], "user": "somebody"}
        async with session.post(f"{fake.url}{TEXT}?query=hidden", json=body, headers=headers) as response:
            usage = (await response.json())["usage"]
            size = int(response.headers["content-length"])
            request_id = response.headers["x-request-id"]
        await until(lambda: len(log) == 1)
    (line,) = log
    assert line.pop("ms") > 0
    assert line == {
        "event": "request",
        "log_level": "info",
        "request_id": request_id,
        "client": "127.0.0.1",
        "method": "POST",
        "path": TEXT,
        "status": 200,
        "bytes": size,
        "key": "api-key",
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "finish": "stop",
    }


async def test_refusals_faults_and_clients_that_left_are_told_of(session, log):
    async with serving(access_log=True) as fake:
        async with session.post(fake.url + TEXT, json={"promt": "a"}) as response:
            assert response.status == 400
        fake.engine.on_submit = lambda command: 1 / 0
        async with session.post(fake.url + TEXT, json={"prompt": "a"}) as response:
            assert response.status == 500
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent(command.request_id, [40], RequestStats(forwards=1, committed=3))
        )
        async with session.post(fake.url + TEXT, json={"prompt": "a", "stream": True}) as response:
            await response.content.readuntil(b"\n\n")
        await until(lambda: sum(entry["event"] == "request" for entry in log) == 3)
        task = asyncio.create_task(session.post(fake.url + TEXT, json={"prompt": "a"}))
        await until(lambda: len(fake.engine.submitted) == 3)
        task.cancel()
        await until(lambda: sum(entry["event"] == "request" for entry in log) == 4)
    lines = [entry for entry in log if entry["event"] == "request"]
    assert [line["status"] for line in lines] == [400, 500, 200, 499]
    assert [line.get("finish") for line in lines] == [None, "error", "cancelled", "cancelled"]
    assert lines[2]["completion_tokens"] == 3


async def test_probes_are_told_of_only_if_they_fail(session, log):
    async with serving(access_log=True) as fake:
        for path in ("/health", "/ready", "/metrics"):
            async with session.get(fake.url + path) as response:
                assert response.status == 200
        assert log == []
        await fake.engine.close()
        async with session.get(f"{fake.url}/ready") as response:
            assert response.status == 503
        await until(lambda: len(log) == 1)


async def test_nothing_is_logged_without_it(session, log):
    async with serving() as fake, session.get(f"{fake.url}/v1/models") as response:
        assert response.status == 200
    assert log == []


@pytest.mark.parametrize("header", ["x-request-id", "x-client-request-id"])
async def test_a_request_may_bring_its_own_id(session, log, header):
    async with serving(access_log=True) as fake:
        async with session.get(f"{fake.url}/v1/models", headers={header: "trace:7f-a_B.9"}) as response:
            assert response.headers["x-request-id"] == "trace:7f-a_B.9"
        for odd in ("a b", "a\tb", "ü", "x" * 129, "", 'a"b', "a;b"):
            async with session.get(f"{fake.url}/v1/models", headers={header: odd}) as response:
                assert response.headers["x-request-id"] not in ("", odd)
        await until(lambda: len(log) == 8)
    assert log[0]["request_id"] == "trace:7f-a_B.9"
    assert len({line["request_id"] for line in log}) == 8


async def test_a_path_cannot_forge_a_line(session, log):
    async with serving(access_log=True) as fake:
        async with session.get(f"{fake.url}/a%0Aevent=forged%1B[2J{'x' * 1000}") as response:
            assert response.status == 404
        await until(lambda: len(log) == 1)
    assert "\n" not in log[0]["path"]
    assert "\x1b" not in log[0]["path"]
    assert len(log[0]["path"]) < 300


def test_a_server_logs_by_default_and_neither_keys_nor_contents():
    secret, words = "the-secret-key", "seventeen swans"

    async def ask(url):
        async with aiohttp.ClientSession(url) as session:
            for headers in ({"authorization": f"Bearer {secret}"}, {"x-api-key": secret + "x"}):
                async with session.post(TEXT, json={"prompt": words, "user": words}, headers=headers) as response:
                    assert response.status in (200, 401)
                    answer = await response.json()
        return answer

    with serve("--api-key", secret) as server:
        asyncio.run(ask(server.url))
        server.stop()
    lines = [line for line in server.log if "event=request" in line]
    assert len(lines) == 2
    assert "status=200" in lines[0]
    assert "completion_tokens=" in lines[0]
    assert "key=api-key" in lines[0]
    assert "status=401" in lines[1]
    text = "".join(server.log)
    assert secret not in text
    assert "swans" not in text

"""Keys on a live server: who may do what, how often, and what it costs."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta

import aiohttp
import openai
import pytest
import structlog
from fastapi import APIRouter
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.fakes import LoadedEntry, ScriptedEngine, SlowEntry, finished, listening, serving, until
from tests.serving.wire import events
from unmask.errors import InvalidKeyFileError
from unmask.events import CanvasEvent, RequestStats
from unmask.serving.app import create_app
from unmask.serving.house import House
from unmask.serving.security import key_file
from unmask.serving.security.authorization import Authorization
from unmask.serving.security.key import Key, digest, new_secret
from unmask.serving.security.needs import Needs
from unmask.serving.settings import ServerSettings

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
TEXT = "/v1/completions"
SECRET, OTHER = new_secret(), new_secret()


def made(secret: str = SECRET, name: str = "ann", **limits) -> Key:
    return Key(name=name, sha256=digest(secret.encode()), **limits)


@pytest.fixture
def path(tmp_path):
    """The key file, with one key that may do everything."""
    file = tmp_path / "keys.json"
    key_file.write(file, [made()])
    return file


@pytest.fixture
async def session():
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {SECRET}"}) as session:
        yield session


async def error_of(response) -> tuple[int, str]:
    return response.status, (await response.json())["error"]["code"]


async def ask(session, fake, body, path=TEXT):
    async with session.post(fake.url + path, json=body) as response:
        return response.status, dict(response.headers), await response.json()


async def test_a_key_comes_as_bearer_or_as_x_api_key(path):
    async with serving(keys=path) as fake, aiohttp.ClientSession() as session:
        for headers in (
            {"authorization": f"Bearer {SECRET}"},
            {"authorization": f"bearer  {SECRET}"},
            {"x-api-key": SECRET},
            {"x-api-key": SECRET, "authorization": "Basic eDp5"},
            {"x-api-key": "wrong", "authorization": f"Bearer {SECRET}"},
        ):
            async with session.get(f"{fake.url}/v1/models", headers=headers) as response:
                assert response.status == 200, headers
        for headers in ({}, {"authorization": SECRET}, {"x-api-key": digest(SECRET.encode())}, {"x-api-key": ""}):
            async with session.get(f"{fake.url}/v1/models", headers=headers) as response:
                assert await error_of(response) == (401, "invalid_api_key"), headers
                assert response.headers["www-authenticate"] == "Bearer"


async def test_the_one_key_and_the_file_work_side_by_side(path):
    async with serving(keys=path, api_key="s3cret") as fake, aiohttp.ClientSession() as session:
        for key in (SECRET, "s3cret"):
            async with session.get(f"{fake.url}/v1/models", headers={"x-api-key": key}) as response:
                assert response.status == 200
        async with session.get(f"{fake.url}/metrics", headers={"x-api-key": "s3cret"}) as response:
            assert response.status == 200


async def test_scopes(session, path):
    key_file.write(path, [made(scopes=("models",)), made(OTHER, "prometheus", scopes=("metrics",))])
    async with serving(keys=path) as fake:
        for name in ("/v1/models", "/api/tags"):
            async with session.get(fake.url + name) as response:
                assert response.status == 200
        assert (await ask(session, fake, {"prompt": "a"}, "/tokenize"))[0] == 403
        status, _, answer = await ask(session, fake, {"prompt": "a"})
        assert (status, answer["error"]["code"]) == (403, "insufficient_scope")
        assert "'generate'" in answer["error"]["message"]
        assert not fake.engine.submitted
        other = {"authorization": f"Bearer {OTHER}"}
        for name, own, wanted in [("/metrics", None, 403), ("/metrics", other, 200), ("/v1/models", other, 403)]:
            async with session.get(fake.url + name, headers=own) as response:
                assert response.status == wanted, name
        for name in ("/health", "/ready"):
            async with aiohttp.ClientSession() as nobody, nobody.get(fake.url + name) as response:
                assert response.status == 200


@pytest.fixture(scope="module")
def all_needs() -> Needs:
    """Of all routes of an application with keys."""
    app = create_app(House([LoadedEntry(ScriptedEngine(), 1)]), ServerSettings(api_key="secret"))
    (kept,) = [layer.kwargs["needs"] for layer in app.user_middleware if layer.cls is Authorization]
    return kept


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("GET", "/v1/models", "models"),
        ("HEAD", "/v1/models/a/b", "models"),
        ("GET", "/openapi.json", "models"),
        ("POST", "/tokenize", "generate"),
        ("POST", "/v1/messages/count_tokens", "generate"),
        ("GET", "/metrics", "metrics"),
        ("POST", "/metrics", "metrics"),
        ("POST", "/v1/chat/completions", "generate"),
        ("GET", "/v1/responses/resp_1", "generate"),
        ("GET", "/v1/modelsx", "generate"),
        ("POST", "/v1/models", "models"),  # a 405
        ("POST", "/v1/responses/tokenize", "generate"),
        ("POST", "/tokenize\n", "generate"),  # as the router has it
        ("POST", "/health", "nothing"),
        ("DELETE", "/v1/responses/resp_1", "generate"),
        ("GET", "/anything/new", "generate"),
    ],
)
def test_what_a_request_takes(all_needs, method, path, scope):
    assert all_needs.of({"type": "http", "method": method, "path": path, "headers": []}) == scope


def test_what_each_route_declares(all_needs):
    told: dict[str, set[str]] = {}
    for route, need in all_needs.declared:
        told.setdefault(need, set()).add(route.path)
    assert told.pop("nothing") == {"/", "/health", "/ready", "/playground/{name:path}"}
    assert told.pop("metrics") == {"/metrics"}
    assert all(path.startswith("/unmask/") for path in told.pop("manage"))
    assert told.pop("models") == {
        "/openapi.json",
        "/v1/models",
        "/v1/models/{name:path}",
        "/api/tags",
        "/api/ps",
        "/api/version",
        "/api/show",
    }
    assert told.keys() == {"generate"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tokenize", {"prompt": "hi"}),
        ("POST", "/detokenize", {"tokens": [1]}),
        ("GET", "/tokenizer_info", None),
        ("POST", "/v1/messages/count_tokens", {"model": "unmask-tiny", **CHAT}),
        ("POST", "/v1/responses/input_tokens", {"model": "unmask-tiny", "input": "hi"}),
        ("POST", "/v1/chat/completions", CHAT),
        ("POST", "/api/generate", {"model": "unmask-tiny", "keep_alive": -1}),
    ],
)
async def test_who_may_only_look_has_no_model_loaded(session, tmp_path, method, path, body):
    key_file.write(tmp_path / "keys.json", [made(scopes=("models",))])
    entry = SlowEntry(ScriptedEngine())
    async with listening(House([entry]), keys=tmp_path / "keys.json") as url:
        async with session.request(method, url + path, json=body) as response:
            assert response.status == 403
        async with session.get(f"{url}/v1/models") as response:
            assert response.status == 200
    assert entry.loading == 0


def test_a_route_that_declares_nothing_is_an_error():
    router = APIRouter()
    router.get("/new")(lambda: None)
    with pytest.raises(LookupError, match="/new"):
        Needs(router.routes)


async def test_a_rate_is_a_429_until_retry_after(session, path):
    key_file.write(path, [made(requests_per_minute=60, scopes=("models", "metrics"))])
    async with serving(keys=path) as fake:
        for count in range(60):
            async with session.get(f"{fake.url}/v1/models") as response:
                assert response.status == 200, count
        async with session.get(f"{fake.url}/v1/models") as response:
            assert await error_of(response) == (429, "rate_limit_exceeded")
            assert response.headers["retry-after"] == "1"
            assert response.headers["x-ratelimit-remaining-requests"] == "0"
        await asyncio.sleep(1.01)
        async with session.get(f"{fake.url}/metrics") as response:
            assert response.status == 200
            families = text_string_to_metric_families(await response.text())
        samples = [sample for family in families for sample in family.samples]
        assert [s.value for s in samples if s.labels.get("reason") == "rate_limit_exceeded" and s.value == 1] == [1]


async def test_official_clients_understand_the_refusals(path):
    key_file.write(path, [made(tokens_per_day=1), made(OTHER, "reader", scopes=("models",))])
    async with serving(keys=path) as fake:
        fake.engine.answer([40])
        async with openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key=SECRET, max_retries=0) as client:
            await client.chat.completions.create(model="unmask-tiny", **CHAT)
            with pytest.raises(openai.RateLimitError) as refusal:
                await client.chat.completions.create(model="unmask-tiny", **CHAT)
            assert refusal.value.code == "token_budget_exceeded"
        async with openai.AsyncOpenAI(base_url=f"{fake.url}/v1", api_key=OTHER, max_retries=0) as client:
            with pytest.raises(openai.PermissionDeniedError):
                await client.chat.completions.create(model="unmask-tiny", **CHAT)


@pytest.mark.parametrize("stream", [False, True])
async def test_usage_is_what_is_charged(session, path, stream):
    key_file.write(path, [made(tokens_per_day=1000)])
    async with serving(keys=path) as fake:
        fake.engine.answer([40, 41, 42])
        body = {"prompt": ["one two", "three"], "stream": stream}
        if stream:
            body["stream_options"] = {"include_usage": True}
        async with session.post(fake.url + TEXT, json=body) as response:
            payload = await response.read()
        usage = events(payload)[-1]["usage"] if stream else (await response.json())["usage"]
        assert usage["completion_tokens"] == 8
        async with session.get(f"{fake.url}/v1/models") as response:
            left = int(response.headers["x-ratelimit-remaining-tokens"])
        assert left == 1000 - usage["total_tokens"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_pays_for_what_was_computed(session, path, stream):
    key_file.write(path, [made(tokens_per_day=1000)])
    async with serving(keys=path) as fake:
        body = {"prompt": "one two", "stream": stream}
        task = asyncio.create_task(session.post(fake.url + TEXT, json=body))
        await until(lambda: len(fake.engine.submitted) == 1)
        command = fake.engine.submitted[0]
        fake.engine.say(CanvasEvent(command.request_id, [40, 41], RequestStats(forwards=3, committed=5)))
        if stream:
            response = await task
            await response.content.readuntil(b"\n\n")
            response.close()
        else:
            await asyncio.sleep(0.05)
            task.cancel()
        await until(lambda: fake.engine.cancelled == [command.request_id])
        async with session.get(f"{fake.url}/v1/models") as response:
            left = int(response.headers["x-ratelimit-remaining-tokens"])
        assert left == 1000 - len(command.prompt_ids) - 5


async def test_an_exhausted_budget_is_a_429_before_anything_begins(session, path):
    key_file.write(path, [made(tokens_per_minute=5)])
    async with serving(keys=path) as fake:
        fake.engine.answer([40] * 20)
        assert (await ask(session, fake, {"prompt": "a"}))[0] == 200
        for body in ({"prompt": "a"}, {"prompt": "a", "stream": True}):
            status, headers, answer = await ask(session, fake, body)
            assert (status, answer["error"]["code"]) == (429, "token_budget_exceeded")
            assert 60 < int(headers["Retry-After"]) <= 300
            assert headers["x-ratelimit-remaining-tokens"] == "0"
        assert len(fake.engine.submitted) == 1
        async with session.get(f"{fake.url}/v1/models") as response:
            assert response.status == 200  # costs no tokens


async def test_a_fault_of_ours_costs_nothing(session, path):
    key_file.write(path, [made(tokens_per_day=100)])
    async with serving(keys=path) as fake:
        fake.engine.on_submit = lambda command: fake.engine.say(
            CanvasEvent.failure(command.request_id, "engine_fault", "It broke.")
        )
        status, headers, _ = await ask(session, fake, {"prompt": "a"})
        assert (status, headers["x-ratelimit-remaining-tokens"]) == (500, "100")


async def test_a_key_for_batch_work(session, path):
    key_file.write(path, [made(priority="batch")])
    async with serving(keys=path) as fake:
        fake.engine.answer([40])
        assert (await ask(session, fake, {"prompt": "a"}))[2]["unmask"]["applied"]["priority"] == "batch"
        status, _, answer = await ask(session, fake, {"prompt": "a", "unmask": {"priority": "interactive"}})
        assert (status, answer["error"]["code"], answer["error"]["param"]) == (
            403,
            "insufficient_scope",
            "unmask.priority",
        )


async def test_the_tenant_is_the_key_however_it_is_sent(path):
    key_file.write(path, [made(), made(OTHER, "ben")])
    async with serving(keys=path) as fake, aiohttp.ClientSession() as session:
        fake.engine.answer([40])
        for headers in ({"x-api-key": SECRET}, {"authorization": f"Bearer {SECRET}"}, {"x-api-key": OTHER}):
            async with session.post(fake.url + TEXT, json={"prompt": "a"}, headers=headers) as response:
                assert response.status == 200
        first, again, other = (command.terms.tenant for command in fake.engine.submitted)
        assert first == again != other


async def test_what_is_kept_for_a_key_is_kept_from_the_others(path):
    key_file.write(path, [made(), made(OTHER, "ben")])
    async with serving(keys=path) as fake, aiohttp.ClientSession() as session:
        fake.engine.answer([40])
        ann, ben = {"x-api-key": SECRET}, {"x-api-key": OTHER}
        async with session.post(f"{fake.url}/v1/responses", json={"input": "a"}, headers=ann) as response:
            kept = f"{fake.url}/v1/responses/{(await response.json())['id']}"
        for headers, status in ((ben, 404), ({"authorization": f"Bearer {SECRET}"}, 200), ({}, 401)):
            async with session.get(kept, headers=headers) as response:
                assert response.status == status
        for headers, status in ((ben, 404), (ann, 200)):
            async with session.delete(kept, headers=headers) as response:
                assert response.status == status


async def test_without_keys_x_api_key_makes_a_tenant(session):
    async with serving() as fake, aiohttp.ClientSession() as session:
        fake.engine.answer([40])
        for key in ("a", "b", "b"):
            async with session.post(fake.url + TEXT, json={"prompt": "a"}, headers={"x-api-key": key}) as response:
                assert response.status == 200
        first, second, third = (command.terms.tenant for command in fake.engine.submitted)
        assert first != second == third


async def test_the_file_is_read_again_when_it_changes(session, path):
    async def status(secret):
        async with session.get(f"{fake.url}/v1/models", headers={"authorization": f"Bearer {secret}"}) as response:
            return response.status

    async with serving(keys=path) as fake:
        assert [await status(SECRET), await status(OTHER)] == [200, 401]
        key_file.write(path, [made(OTHER, "ben")])
        assert [await status(SECRET), await status(OTHER)] == [401, 200]
        with structlog.testing.capture_logs() as log:
            path.write_text("{")
            assert [await status(OTHER), await status(OTHER)] == [200, 200]
            path.unlink()
            assert [await status(OTHER), await status(OTHER)] == [200, 200]
        assert [entry["log_level"] for entry in log] == ["error", "error"]
        key_file.write(path, [])
        assert [await status(SECRET), await status(OTHER)] == [401, 401]


async def test_a_change_of_the_file_forgives_nothing(session, path):
    key_file.write(path, [made(tokens_per_day=10)])
    async with serving(keys=path) as fake:
        fake.engine.answer([40] * 30)
        assert (await ask(session, fake, {"prompt": "a"}))[0] == 200
        key_file.write(path, [made(tokens_per_day=20), made(OTHER, "ben")])
        assert (await ask(session, fake, {"prompt": "a"}))[0] == 429


async def test_a_key_opens_nothing_after_its_time(session, path):
    now = datetime.now(UTC)
    key_file.write(
        path, [made(expires=now - timedelta(seconds=1)), made(OTHER, "ben", expires=now + timedelta(days=1))]
    )
    async with serving(keys=path) as fake:
        async with session.get(f"{fake.url}/v1/models") as response:
            assert await error_of(response) == (401, "invalid_api_key")
        async with session.get(f"{fake.url}/v1/models", headers={"authorization": f"Bearer {OTHER}"}) as response:
            assert response.status == 200


async def test_a_key_that_is_taken_away_lets_its_running_requests_end(session, path):
    async with serving(keys=path) as fake:
        task = asyncio.create_task(session.post(fake.url + TEXT, json={"prompt": "a"}))
        await until(lambda: len(fake.engine.submitted) == 1)
        key_file.write(path, [])
        assert (await ask(session, fake, {"prompt": "a"}))[0] == 401
        fake.engine.say(finished(fake.engine.submitted[0].request_id, [40]))
        async with await task as response:
            assert response.status == 200


BROKEN = [
    "",
    "[]",
    '{"keys": [{"name": "a"}]}',
    '{"keys": [], "more": 1}',
    '{"keys": [{"name": "a", "sha256": "%s", "scope": []}]}' % ("0" * 64),
    '{"keys": [{"name": "a", "sha256": "%s", "scopes": []}]}' % ("0" * 64),
    '{"keys": [{"name": "a b", "sha256": "%s"}]}' % ("0" * 64),
    '{"keys": [{"name": "a\\n", "sha256": "%s"}]}' % ("0" * 64),
    '{"keys": [{"name": "a", "sha256": "%s"}]}' % ("0" * 63),
    '{"keys": [{"name": "a", "sha256": "%s", "tokens_per_day": 0}]}' % ("0" * 64),
    '{"keys": [{"name": "a", "sha256": "%s", "expires": "2030-01-01T00:00:00"}]}' % ("0" * 64),
    '{"keys": [{"name": "api-key", "sha256": "%s"}]}' % ("0" * 64),
    '{"keys": [%s, %s]}' % (('{"name": "a", "sha256": "%s"}' % ("0" * 64),) * 2),
    "[" * 100_000,
    "x" * (2**20 + 1),
]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_key_file_is_refused_by_name(tmp_path, text):
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(InvalidKeyFileError, match=str(file)):
        key_file.read(file)


def test_the_file_holds_no_key_and_is_its_owners(path):
    assert SECRET not in path.read_text()
    assert os.stat(path).st_mode & 0o077 == 0
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.json"]


async def test_refusals_come_in_the_words_of_their_path(path):
    key_file.write(path, [made(tokens_per_day=1, requests_per_minute=2), made(OTHER, "ben", scopes=("models",))])
    body = {"model": "unmask-tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "hi"}]}
    foreign = {"x-api-key": SECRET, "host": "evil.example"}
    page = {"x-api-key": SECRET, "origin": "http://evil.example"}
    own = {"x-api-key": SECRET}
    async with serving(keys=path) as fake, aiohttp.ClientSession() as session:
        fake.engine.answer([40])
        for headers, status, kind, code in (
            ({}, 401, "authentication_error", "invalid_api_key"),
            ({"x-api-key": OTHER}, 403, "permission_error", "insufficient_scope"),
            (foreign, 403, "permission_error", "host_not_allowed"),
            (page, 403, "permission_error", "origin_not_allowed"),
            (own, 200, None, None),
            (own, 429, "rate_limit_error", "token_budget_exceeded"),
            (own, 429, "rate_limit_error", "rate_limit_exceeded"),
        ):
            async with session.post(f"{fake.url}/v1/messages", json=body, headers=headers) as response:
                answer = await response.json()
            assert response.status == status, answer
            if status != 200:
                assert answer["type"] == "error"
                assert (answer["error"]["type"], answer["error"]["code"]) == (kind, code)

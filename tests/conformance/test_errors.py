"""Errors as each client raises them: class, status and code, before the answer and in its middle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conformance.cases import TEXT, ask
from tests.conformance.client import CLIENTS, Client, Job
from tests.conformance.dialects import Dialect
from tests.conformance.http import post
from tests.serving.fakes import FakeServer, serving, until
from unmask.events import CanvasEvent, RequestStats

Body = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    client: Client
    dialect: Dialect
    mode: str

    def check(self, error: Body, status: int, code: str) -> None:
        """What a user catches: the class for ``status``, and where the dialect has a place for it, ``code``."""
        assert (error["class"], error["status"]) == (self.client.error_class(status), status)
        assert error["message"]
        if self.dialect.has_codes:
            assert error["code"] == code

    def __str__(self) -> str:
        return f"{self.client}-{self.dialect}-{self.mode}"


CELLS = [Cell(client, dialect, mode) for client in CLIENTS for dialect, mode in client.pairs]
each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)

LONG = ask("long", "word " * 3000)

REFUSED: dict[str, tuple[Callable[[Dialect, Body], Body], int, str]] = {
    "unknown model": (lambda dialect, body: body | {"model": "gpt-7"}, 404, "model_not_found"),
    "unknown field": (lambda dialect, body: body | {"nonsense": 1}, 400, "unknown_field"),
    "unknown option": (lambda dialect, body: dialect.extended(body, {"nonsense": 1}), 400, "unknown_field"),
    "bad value": (lambda dialect, body: dialect.extended(body, {"threshold": 7.5}), 400, "invalid_value"),
    "too long": (lambda dialect, body: dialect.body(LONG), 400, "context_length_exceeded"),
}


CAN_BE_SENT = [
    (cell, reason) for cell in CELLS for reason in REFUSED if not (cell.client.strict and reason == "unknown field")
]


@pytest.mark.parametrize(("cell", "reason"), CAN_BE_SENT, ids=str)
def test_what_is_refused(cell, reason, server, driver):
    change, status, code = REFUSED[reason]
    body = change(cell.dialect, cell.dialect.body(TEXT))
    seen = driver(cell.client).ask(Job(server.url, cell.dialect, cell.mode, body))
    assert not seen["deltas"]
    cell.check(seen["error"], status, code)
    plain = post(server.url, cell.dialect.path, body)
    assert plain.status == status
    assert told(plain.json()) in seen["error"]["message"]


def job(cell: Cell, fake: FakeServer, **how: Any) -> Job:
    return Job(fake.url, cell.dialect, cell.mode, cell.dialect.body(TEXT), **how)


def told(body: Body) -> str:
    """What an error body tells people."""
    error = body["error"]
    return error if isinstance(error, str) else error["message"]


async def ask(cell: Cell, driver, fake: FakeServer, **how: Any) -> Body:
    """What the client sees of ``TEXT``; the server in this process goes on meanwhile."""
    return await asyncio.to_thread(driver(cell.client).ask, job(cell, fake, **how))


def fail(fake: FakeServer, name: str) -> None:
    fake.engine.say(CanvasEvent.failure(name, "engine_fault", "It broke."))


@each_cell
async def test_wrong_and_right_keys(cell, driver):
    async with serving(api_key="secret") as fake:
        fake.engine.answer([40, 41])
        cell.check((await ask(cell, driver, fake, key="wrong"))["error"], 401, "invalid_api_key")
        assert (await ask(cell, driver, fake, key="secret"))["error"] is None


@each_cell
async def test_a_full_queue_and_a_dead_engine(cell, driver):
    async with serving(capacity=1) as fake:
        holding = asyncio.create_task(asyncio.to_thread(post, fake.url, "/v1/completions", {"prompt": "wait"}))
        await until(lambda: bool(fake.engine.submitted))
        cell.check((await ask(cell, driver, fake))["error"], 429, "queue_full")
        fail(fake, fake.engine.submitted[0].request_id)
        assert (await holding).status == 500
        fake.engine.running = False
        cell.check((await ask(cell, driver, fake))["error"], 503, "engine_unavailable")


@each_cell
async def test_an_engine_that_breaks(cell, driver):
    """In the middle of a stream, where the status was sent long ago, or instead of a whole answer."""
    async with serving() as fake:
        client = driver(cell.client)
        client.send(job(cell, fake))
        await until(lambda: bool(fake.engine.submitted))
        name = fake.engine.submitted[0].request_id
        fake.engine.say(CanvasEvent(name, [40, 41], RequestStats(forwards=1, blocks=1, committed=2)))
        if cell.mode != "whole":
            await asyncio.to_thread(client.first_delta)
        fail(fake, name)
        seen = await asyncio.to_thread(client.seen)
    assert "It broke." in seen["error"]["message"]
    assert seen["finish"] is None
    if cell.mode == "whole":
        cell.check(seen["error"], 500, "engine_fault")
    else:
        assert seen["deltas"]

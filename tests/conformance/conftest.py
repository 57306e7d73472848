"""A live server, and each client's process, for as long as tests want them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.cases import Case
from tests.conformance.client import Client, Driver
from tests.conformance.dialects import Answer, Dialect
from tests.conformance.http import post
from tests.serving.processes import Server, serve


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """`unmask serve` with the embedded model."""
    with serve() as running:
        yield running


@pytest.fixture(scope="session")
def driver() -> Iterator[Callable[[Client], Driver]]:
    """driver(client): its process, started when first asked for."""
    started: dict[str, Driver] = {}

    def driver(client: Client) -> Driver:
        client.environment.require()
        if client.name not in started:
            started[client.name] = Driver(client)
        return started[client.name]

    yield driver
    for one in started.values():
        one.close()


@pytest.fixture(scope="session")
def whole(server: Server) -> Callable[[Dialect, Case], Answer]:
    """whole(dialect, case): the answer to a plain HTTP request, not streamed."""
    known: dict[tuple[str, str], Answer] = {}

    def whole(dialect: Dialect, case: Case) -> Answer:
        key = dialect.name, case.name
        if key not in known:
            known[key] = dialect.read(post(server.url, dialect.path, dialect.body(case)).json())
        return known[key]

    return whole

"""A live server, and each client's process, for as long as tests want them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from tests.conformance.cases import MODEL, Case
from tests.conformance.client import Client, Driver
from tests.conformance.dialects import Answer, Dialect
from tests.conformance.http import post
from tests.serving.processes import Server, serve

EMBEDDED = Path(str(files("unmask.models") / "tiny"))


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model, with a chat template that says how it would think if it did."""
    copy = tmp_path_factory.mktemp("models") / MODEL
    shutil.copytree(EMBEDDED, copy)
    template = copy / "chat_template.jinja"
    template.write_text(f"{{# <think> </think> #}}{template.read_text()}")
    return copy


@pytest.fixture(scope="session")
def server(model: Path) -> Iterator[Server]:
    """`unmask serve` with that model."""
    with serve(str(model)) as running:
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
            reply = post(server.url, dialect.path, dialect.body(case))
            assert reply.status == 200, reply.body
            known[key] = dialect.read(reply.json())
        return known[key]

    return whole

"""One live server for all tests that need nothing special of it, and clients for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator

import aiohttp
import jsonschema
import openai
import pytest

from tests.conftest import SHARED
from tests.serving.processes import Server, serve


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """`unmask serve` with the embedded model."""
    with serve() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[openai.OpenAI]:
    """The official client; it does not retry, so that every failure shows."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
async def http(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    """A plain HTTP client of the live server."""
    async with aiohttp.ClientSession(server.url) as session:
        yield session


@pytest.fixture(scope="session")
def openapi() -> dict:
    """OpenAI's published API description."""
    path = SHARED / "data" / "openai-openapi" / "openapi.json"
    if not path.is_file():
        pytest.skip(f"no OpenAI API description at {path}; set UNMASK_SHARED")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def check(openapi):
    """check(body, name): validate against a named schema of the description."""
    schemas = {"components": openapi["components"]}
    _null_means_null(schemas)

    def check(body: object, name: str) -> None:
        jsonschema.Draft202012Validator(schemas | {"$ref": f"#/components/schemas/{name}"}).validate(body)

    return check


def _null_means_null(node: object) -> None:
    """Translate OpenAPI 3.0's ``nullable: true``, which the description still uses, for JSON Schema."""
    if isinstance(node, dict):
        for value in list(node.values()):
            _null_means_null(value)
        if node.get("nullable") is True:
            del node["nullable"]
            inner = dict(node)
            node.clear()
            node["anyOf"] = [inner, {"type": "null"}]
    elif isinstance(node, list):
        for value in node:
            _null_means_null(value)

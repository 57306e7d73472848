"""One live server for all tests that need nothing special of it, and clients for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import aiohttp
import openai
import pytest

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

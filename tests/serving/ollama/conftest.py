"""Ollama's official client of the live server."""

from __future__ import annotations

from collections.abc import Iterator

import ollama
import pytest

from tests.serving.processes import Server


@pytest.fixture
def client(server: Server) -> Iterator[ollama.Client]:
    client = ollama.Client(server.url)
    yield client
    client.close()

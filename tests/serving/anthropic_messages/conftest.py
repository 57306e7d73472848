"""Anthropic's official client of the live server."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from tests.serving.processes import Server


@pytest.fixture
def client(server: Server) -> Iterator[anthropic.Anthropic]:
    """It does not retry, so that every failure shows."""
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client

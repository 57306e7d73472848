"""Servers of several models: the files they serve, and a neighbour that serves one elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.gateway.house.files import chatty
from tests.serving.processes import serve


@pytest.fixture(scope="session")
def files(golden: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``path`` says of each model: one for llama.cpp, and three for our own engine."""
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed; install unmask[llamacpp]")
    home = tmp_path_factory.mktemp("models")
    return {
        "smol": str(smollm2),
        "tiny": "unmask-tiny",
        "llada": str(chatty(golden / "llada" / "ckpt", home / "llada.gguf")),
        "dream": str(chatty(golden / "dream" / "ckpt", home / "dream.gguf")),
    }


@pytest.fixture(scope="session")
def far(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of another server, which serves the model ``moe``."""
    file = chatty(golden / "llada_moe" / "ckpt", tmp_path_factory.mktemp("far") / "moe.gguf")
    with serve(str(file)) as server:
        yield f"{server.url}/v1"


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that takes its time, with a connection for each request."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=280)) as session:
        yield session

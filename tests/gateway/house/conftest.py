"""Servers of several models: the files they serve, and a neighbour that serves one elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.gateway.house.engines import registered
from tests.gateway.house.files import chatty
from tests.gateway.real_llama import BOTH, PROGRAM, llama_server
from tests.serving.processes import serve


@pytest.fixture(scope="session")
def files(golden: Path, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``path`` says of each model: one for llama.cpp, and three for our own engine."""
    home = tmp_path_factory.mktemp("models")
    return {
        "smol": str(smollm2),
        "tiny": "unmask-tiny",
        "llada": str(chatty(golden / "llada" / "ckpt", home / "llada.gguf")),
        "dream": str(chatty(golden / "dream" / "ckpt", home / "dream.gguf")),
    }


@pytest.fixture(scope="module", params=BOTH)
def llama(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What a configuration says of models that go to llama.cpp: to its package, or to a real ``llama-server``."""
    if request.param != PROGRAM:
        pytest.importorskip("xllamacpp", reason="llama.cpp is not installed; install unmask[llamacpp]")
        yield {}
        return
    data = tmp_path_factory.mktemp("data")
    registered(data, real=llama_server())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(data))
        yield {"lane": "real"}


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

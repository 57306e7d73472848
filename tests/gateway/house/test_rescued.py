"""A model whose engine turns out not to know it, behind a whole server: another takes it, unless one alone may."""

from __future__ import annotations

import json

import pytest

from tests.foreign_models import gguf_file
from tests.gateway.builds import RELEASED, build, calls, denying
from tests.gateway.fake_canvases import words
from tests.gateway.house.asking import ask
from tests.gateway.house.engines import registered
from tests.gateway.house.files import write_config
from tests.serving.processes import serve


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """Two that list the architecture, of which the first does not know it; and the server's configuration."""
    old = build(tmp_path / "old" / "llama-server", *RELEASED, "newer", faults=denying("newer"))
    new = build(tmp_path / "new" / "llama-server", *RELEASED, "newer", engine="fake_canvases")
    registered(tmp_path / "data", old=old, new=new)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = str(gguf_file("newer")(tmp_path / "model"))
    models = {"free": {"path": path, "canary": False}, "bound": {"path": path, "canary": False, "lane": "old"}}
    return old, new, str(write_config(tmp_path / "models.yaml", models))


async def test_unless_one_alone_may_serve_it(builds, session):
    old, new, config = builds
    with serve("--config", config) as server:
        told = await ask(session, server.url, "chat", "bound", "Hi")
        assert (told.status, told.code) == (400, "unknown_architecture"), told
        assert (calls(old), calls(new)) == (1, 0)
        told = await ask(session, server.url, "chat", "free", "Hi")
        assert (told.status, told.text) == (200, words(256))
        assert (calls(old), calls(new)) == (2, 1)
        body = {"model": "free", "messages": [{"role": "user", "content": "Hi"}]}
        async with session.post(f"{server.url}/v1/chat/completions", json=body) as response:
            assert response.headers["x-unmask-lane"] == "new"
        for path, models in (("/v1/models", "data"), ("/unmask/models", "models")):
            async with session.get(server.url + path) as response:
                (card,) = [one for one in (await response.json())[models] if "free" in one.values()]
            assert '"lane":"new"' in json.dumps(card, separators=(",", ":")), card

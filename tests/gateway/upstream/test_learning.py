"""What servers tell of their models, and what is made of those that tell nothing, or nonsense."""

from __future__ import annotations

import json

import pytest

from tests.gateway.upstream.fake import Script, endpoint, fake, opened

TEMPLATE = (
    "{% for m in messages %}{{ m.content }}{% endfor %}{% if tools %}{% endif %}{% if enable_thinking %}{% endif %}"
)
PROPS = {
    "default_generation_settings": {"n_ctx": 1024},
    "chat_template": TEMPLATE,
    "chat_template_caps": {"supports_tools": False},
}


async def learn(kind, pages, **more):
    async with fake(Script()) as server, opened(endpoint(server.url, kind, key="sk-1", **more)) as upstream:
        server.pages = {
            path: page if isinstance(page, bytes) else json.dumps(page).encode() for path, page in pages.items()
        }
        await upstream.learn()
        assert all(headers["Authorization"] == "Bearer sk-1" for headers in server.headers)
        return upstream.endpoint


async def test_llama_cpp_tells_of_its_template():
    found = await learn("llama.cpp", {"/props": PROPS})
    assert (found.tools, found.context_length) == (False, 1024)
    assert found.variables == {"messages", "tools", "enable_thinking"}


@pytest.mark.parametrize("name", ["max_model_len", "context_length"])
@pytest.mark.parametrize("kind", ["vllm", "sglang", "remote"])
async def test_others_tell_how_long_a_sequence_may_be(kind, name):
    listed = {"data": [{"id": "other", name: 1}, {"id": "their-name", name: 2048}]}
    assert (await learn(kind, {"/v1/models": listed})).context_length == 2048


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
@pytest.mark.parametrize(
    "page",
    [b"", b"<html>", b"[]", b"{}", b"[" * 100_000, b'{"a": "' + b"x" * 5_000_000 + b'"}',
     {"data": 3, "chat_template_caps": 3, "default_generation_settings": [], "chat_template": 3},
     {"data": [3, {"id": "their-name", "max_model_len": True}], "chat_template": "{% nonsense"}],
)  # fmt: skip
async def test_nonsense_changes_nothing(kind, page):
    known = {"variables": frozenset(["x"]), "context_length": 7, "tools": False}
    found = await learn(kind, {"/props": page, "/v1/models": page}, **known)
    assert (found.context_length, found.tools) == (7, False)
    assert found.variables in ({"x"}, None)


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm"])
async def test_nobody_tells_anything(kind):
    assert (await learn(kind, {})).context_length is None
    async with opened(endpoint(kind=kind)) as upstream:
        before = upstream.endpoint
        await upstream.learn()
        assert upstream.endpoint == before

"""Every field and option is honoured or refused by name; models and what is not served, as clients ask for them."""

from __future__ import annotations

import re

import ollama
import pytest

from tests.conftest import ROOT
from unmask import __version__
from unmask.serving.dialects.ollama.options import Options
from unmask.serving.dialects.ollama.wire import ChatRequest, GenerateRequest
from unmask.serving.wire import Only

CHAT = {"messages": [{"role": "user", "content": "hi"}], "options": {"num_predict": 2}, "stream": False}
TEXT = {"prompt": "hi", "options": {"num_predict": 2}, "stream": False}
BOTH = [("/api/chat", CHAT), ("/api/generate", TEXT)]
TOOL = {"type": "function", "function": {"name": "f"}}


async def refusal(http, path, body):
    async with http.post(path, json=body) as response:
        assert response.status == 400, await response.text()
        told = await response.json()
    *_, named = re.findall("[a-z_]+", told["param"])
    assert named in told["error"] or named == "think"
    return told["code"], told["param"]


REFUSED_OPTIONS = {
    "embedding_only": True,
    "frequency_penalty": 0.5,
    "logits_all": True,
    "min_p": 0.1,
    "mirostat": 1,
    "presence_penalty": 1,
    "repeat_penalty": 1.1,
    "tfs_z": 0.5,
    "typical_p": 0.5,
    "vocab_only": True,
}


@pytest.mark.parametrize(("path", "base"), BOTH)
@pytest.mark.parametrize("name", REFUSED_OPTIONS)
async def test_options_that_cannot_be_honoured_are_named(http, path, base, name):
    body = base | {"options": {name: REFUSED_OPTIONS[name]}}
    assert await refusal(http, path, body) == ("unsupported_value", f"options.{name}")


REFUSED = [
    ("/api/chat", CHAT, {"think": True}, "think"),
    ("/api/chat", CHAT, {"think": "low"}, "think"),
    ("/api/chat", CHAT, {"think": "sometimes"}, "think"),
    ("/api/chat", CHAT, {"truncate": True}, "truncate"),
    ("/api/chat", CHAT, {"shift": True}, "shift"),
    ("/api/chat", CHAT, {"tools": [{"type": "browser", "function": {"name": "f"}}]}, "tools[0].type"),
    ("/api/chat", CHAT, {"messages": [{"role": "user", "content": "x", "images": ["aGk="]}]}, "messages[0].images"),
    ("/api/chat", CHAT, {"messages": [{"role": "control", "content": "x"}]}, "messages[0].role"),
    ("/api/generate", TEXT, {"suffix": "x"}, "suffix"),
    ("/api/generate", TEXT, {"template": "{{ .Prompt }}"}, "template"),
    ("/api/generate", TEXT, {"context": [1]}, "context"),
    ("/api/generate", TEXT, {"images": ["aGk="]}, "images"),
    ("/api/generate", TEXT, {"width": 512}, "width"),
    ("/api/generate", TEXT, {"height": 512}, "height"),
    ("/api/generate", TEXT, {"steps": 4}, "steps"),
]


@pytest.mark.parametrize(("path", "base", "fields", "param"), REFUSED)
async def test_what_cannot_be_honoured_is_named(http, path, base, fields, param):
    assert await refusal(http, path, base | fields) == ("unsupported_value", param)


INVALID = [
    ("/api/chat", CHAT, {"format": "xml"}, "format"),
    ("/api/chat", CHAT, {"keep_alive": "soon"}, "keep_alive"),
    ("/api/chat", CHAT, {"keep_alive": True}, "keep_alive"),
    ("/api/chat", CHAT, {"top_logprobs": 2}, "top_logprobs"),
    ("/api/chat", CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("/api/chat", CHAT, {"options": {"num_predict": -3}}, "options.num_predict"),
    ("/api/chat", CHAT, {"options": {"num_ctx": 0}}, "options.num_ctx"),
    ("/api/chat", CHAT, {"options": {"temperature": -1.0}}, "options.temperature"),
    ("/api/chat", CHAT, {"options": {"stop": [""]}}, "options.stop[0]"),
    ("/api/chat", CHAT, {"options": {"unmask": {"threshold": 2.0}}}, "options.unmask.threshold"),
    ("/api/chat", CHAT, {"options": {"unmask": {"canvas": "frames"}}}, "options.unmask.canvas"),
    (
        "/api/chat",
        CHAT,
        {"format": "json", "options": {"unmask": {"json_schema": {"enum": ["a"]}}}},
        "options.unmask.json_schema",
    ),
    ("/api/chat", CHAT, {"tools": [TOOL, TOOL]}, "tools[1].function.name"),
    ("/api/chat", CHAT, {"messages": [{"role": "user"}]}, "messages[0].content"),
    ("/api/chat", CHAT, {"messages": [{"role": "user", "content": "x", "thinking": "y"}]}, "messages[0].thinking"),
    ("/api/generate", TEXT, {"raw": True, "system": "x"}, "system"),
    ("/api/generate", TEXT, {"raw": True, "think": True}, "think"),
]


@pytest.mark.parametrize(("path", "base", "fields", "param"), INVALID)
async def test_what_is_wrong_is_named(http, path, base, fields, param):
    assert await refusal(http, path, base | fields) == ("invalid_value", param)


@pytest.mark.parametrize(("path", "base"), BOTH)
async def test_what_is_unknown_is_named(http, path, base):
    assert await refusal(http, path, base | {"tool_choice": "auto"}) == ("unknown_field", "tool_choice")
    assert await refusal(http, path, base | {"options": {"nope": 1}}) == ("unknown_field", "options.nope")
    unknown = base | {"options": {"unmask": {"nope": 1}}}
    assert await refusal(http, path, unknown) == ("unknown_field", "options.unmask.nope")


async def test_what_clients_send_by_habit_passes(http):
    options = {
        "num_ctx": 4096,
        "repeat_penalty": 1.0,
        "min_p": 0.0,
        "num_gpu": 99,
        "repeat_last_n": 64,
        "num_predict": 2,
    }
    body = CHAT | {"tools": [], "format": "", "keep_alive": "5m", "think": False, "options": options, "truncate": False}
    async with http.post("/api/chat", json=body) as response:
        assert response.status == 200, await response.text()


def test_every_option_and_field_is_described():
    page = (ROOT / "docs" / "ollama.md").read_text()
    for model in (Options, ChatRequest, GenerateRequest):
        honoured = [
            name
            for name, field in model.model_fields.items()
            if name == "think" or not any(isinstance(mark, Only) for mark in field.metadata)
        ]
        assert [name for name in honoured if f"`{name}" not in page] == []


def test_models_are_listed_shown_and_running(client):
    (listed,) = client.list().models
    (running,) = client.ps().models
    assert listed.model == running.model == "unmask-tiny:latest"
    assert len(listed.digest) == 64
    assert (listed.details.family, listed.details.parameter_size) == ("llada", "1.5M")
    assert running.context_length == 1024
    shown = client.show("unmask-tiny:latest")
    assert shown.modelinfo["general.architecture"] == "llada"
    assert shown.modelinfo["llada.context_length"] == 1024
    assert shown.capabilities == ["completion", "tools"]
    assert "<|assistant|>" in shown.template


def test_a_model_goes_by_its_name_with_and_without_the_tag(client):
    for name in ("unmask-tiny", "unmask-tiny:latest"):
        assert client.generate(name, "hi", options={"num_predict": 1}).model == name
    with pytest.raises(ollama.ResponseError, match="not served here") as caught:
        client.generate("unmask-tiny:7b", "hi")
    assert caught.value.status_code == 404


REQUESTS = [
    lambda client: client.pull("x"),
    lambda client: client.push("x"),
    lambda client: client.create("x", from_="y"),
    lambda client: client.copy("x", "y"),
    lambda client: client.delete("x"),
    lambda client: client.embed("unmask-tiny", "x"),
    lambda client: client.embeddings("unmask-tiny", "x"),
]


@pytest.mark.parametrize("ask", REQUESTS)
def test_what_is_not_served_says_so(client, ask):
    with pytest.raises(ollama.ResponseError, match="is not served") as caught:
        ask(client)
    assert caught.value.status_code == 501


async def test_what_clients_look_for_at_first(http):
    async with http.get("/api/version") as response:
        assert await response.json() == {"version": __version__}
    for method in ("GET", "HEAD"):
        async with http.request(method, "/", headers={"accept": "*/*"}) as response:
            assert response.status == 200
            assert await response.text() == ("Ollama is running" if method == "GET" else "")
    async with http.get("/", headers={"accept": "text/html,*/*;q=0.8"}) as response:
        assert "Ollama" not in await response.text()
    async with http.get("/api/nope") as response:
        assert response.status == 404
        assert (await response.json())["code"] == "not_found"

"""What a newcomer does wrong, or does as other servers' documentation has it: served, or told how."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROMPT = "What is 7 + 8?"


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat", "/api/show"])
async def test_ollamas_curl_says_no_json(http, path):
    """`curl -d` says that it sends a form, and so do all examples in Ollama's documentation."""
    body = '{"model": "unmask-tiny", "prompt": "%s", "stream": false}' % PROMPT  # noqa: UP031
    if path == "/api/chat":
        body = '{"model": "unmask-tiny", "messages": [{"role": "user", "content": "%s"}]}' % PROMPT  # noqa: UP031
    if path == "/api/show":
        body = '{"model": "unmask-tiny"}'
    for headers in ({"content-type": "application/x-www-form-urlencoded"}, {}):
        async with http.post(path, data=body.encode(), headers=headers) as response:
            assert response.status == 200, await response.text()


async def test_anthropics_clients_are_told_that_no_threads_are_kept(http):
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 9, "thread": {"type": "create"}}
    async with http.post("/v1/messages", json=body) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    del body["thread"]
    async with http.post("/v1/messages", json=body | {"threads": 1}) as response:
        assert "details" not in (await response.json())["error"]


async def test_anthropics_max_tokens_may_be_more_than_the_context(http):
    body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4096}
    async with http.post("/v1/messages", json=body) as response:
        assert response.status == 200
        answer = await response.json()
    assert answer["unmask"]["applied"]["max_tokens"] == 1024 - answer["usage"]["input_tokens"]
    long = body | {"messages": [{"role": "user", "content": "word " * 3000}]}
    async with http.post("/v1/messages", json=long) as response:
        assert response.status == 400
        assert (await response.json())["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/chat/completions", "There is no /chat/completions. Did you mean /v1/chat/completions?"),
        ("/v1/chat/completion", "There is no /v1/chat/completion. Did you mean /v1/chat/completions?"),
        ("/v1/api/chat", "There is no /v1/api/chat. Did you mean /api/chat?"),
        ("/v1/v1/messages", "There is no /v1/v1/messages. Did you mean /v1/messages?"),
        ("/v1/embeddings", "There is no /v1/embeddings."),
    ],
)
async def test_a_path_that_is_not_there_names_the_one_that_is(http, path, told):
    async with http.post(path, json={}) as response:
        assert response.status == 404
        assert (await response.json())["error"]["message"] == told


async def test_a_method_that_is_not_there_names_the_one_that_is(http):
    async with http.get("/v1/chat/completions") as response:
        assert response.status == 405
        assert (await response.json())["error"]["message"].endswith("Use POST.")


async def test_hints_speak_of_the_field_that_was_sent(http):
    body = {"messages": [{"role": "user", "content": PROMPT}], "reasoning_effort": "high"}
    async with http.post("/v1/chat/completions", json=body) as response:
        assert "Leave 'reasoning_effort' out." in (await response.json())["error"]["message"]
    async with http.post("/v1/chat/completions", json={"messages": body["messages"], "store": True}) as response:
        assert "only false is supported" in (await response.json())["error"]["message"]


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "unmask", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("unmask ")

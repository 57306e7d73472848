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
        ("/v1/engines", "There is no /v1/engines."),
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


TOO_SHORT_OR_LONG = [
    ("/v1/chat/completions", {"messages": []}, "messages", "'messages' is empty. Send at least one message."),
    ("/v1/messages", {"messages": [], "max_tokens": 9}, "messages", "'messages' is empty. Send at least one message."),
    ("/v1/responses", {"input": []}, "input", "'input' is empty. Send at least one entry."),
    ("/v1/completions", {"prompt": []}, "prompt", "'prompt' is empty. Send at least one entry."),
    ("/v1/completions", {"prompt": "a", "stop": ""}, "stop", "'stop' is empty. Send at least one character."),
    (
        "/v1/completions",
        {"prompt": "a", "stop": ["a", "b" * 1025]},
        "stop[1]",
        "'stop[1]' has more than 1024 characters. Send at most 1024.",
    ),
    (
        "/v1/completions",
        {"prompt": "a", "stop": ["a"] * 17},
        "stop",
        "'stop' has more than 16 entries. Send at most 16.",
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "a"}] * 4097},
        "messages",
        "'messages' has more than 4096 messages. Send at most 4096.",
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "a"}], "metadata": {str(n): "" for n in range(17)}},
        "metadata",
        "'metadata' has more than 16 entries. Send at most 16.",
    ),
]


@pytest.mark.parametrize(("path", "body", "param", "told"), TOO_SHORT_OR_LONG)
async def test_what_is_too_short_or_too_long_is_told_in_plain_words(http, path, body, param, told):
    async with http.post(path, json=body) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert (error["code"], error["param"], error["message"]) == ("invalid_value", param, told)


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
MESSAGES = [{"role": "user", "content": PROMPT}]
AT_ODDS = [
    (
        "/v1/chat/completions",
        {"messages": MESSAGES, "response_format": {"type": "json_object"}, "stop": "a"},
        ["'stop' goes against 'response_format',"],
    ),
    (
        "/v1/completions",
        {"prompt": PROMPT, "response_format": {"type": "json_object"}, "stop": "a"},
        ["'stop' goes against 'response_format',"],
    ),
    (
        "/v1/messages",
        {
            "messages": MESSAGES,
            "max_tokens": 9,
            "output_format": {"type": "json_schema", "schema": SCHEMA},
            "stop_sequences": ["a"],
        },
        ["'stop_sequences' goes against 'output_config.format.schema',"],
    ),
    (
        "/v1/responses",
        {"input": PROMPT, "text": {"format": {"type": "json_object"}}, "stop": "a"},
        ["'stop' goes against 'text.format',"],
    ),
    (
        "/api/chat",
        {"messages": MESSAGES, "format": "json", "options": {"stop": "a"}, "stream": False},
        ["'options.stop' goes against 'format',"],
    ),
    (
        "/v1/responses",
        {
            "input": PROMPT,
            "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
            "max_output_tokens": 1,
        },
        ["'text.format' cannot be met", "'max_output_tokens' of at least"],
    ),
    (
        "/api/generate",
        {"prompt": PROMPT, "format": SCHEMA, "options": {"num_predict": 1}, "stream": False},
        ["'format' cannot be met", "'options.num_predict' of at least"],
    ),
    (
        "/v1/chat/completions",
        {"messages": MESSAGES, "max_completion_tokens": 9999},
        ["'max_completion_tokens' 9999 exceed the context"],
    ),
]


@pytest.mark.parametrize(("path", "body", "told"), AT_ODDS)
async def test_fields_that_are_at_odds_are_both_named_as_they_were_sent(http, path, body, told):
    async with http.post(path, json=body) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    message = error if isinstance(error, str) else error["message"]
    assert [words for words in told if words not in message] == [], message


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "unmask", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("unmask ")

"""Every field is honoured or refused by name; the server stays up."""

from __future__ import annotations

import io

import pytest

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
TEXT = {"prompt": "hi", "max_tokens": 2}
BOTH = ("/v1/chat/completions", CHAT), ("/v1/completions", TEXT)


async def refusal(http, path, body):
    async with http.post(path, json=body) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["type"] == "invalid_request_error"
    async with http.get("/ready") as response:
        assert response.status == 200
    return error["code"], error["param"]


UNSUPPORTED = {
    "best_of": 3,
    "frequency_penalty": 0.5,
    "presence_penalty": -1,
    "repetition_penalty": 1.1,
    "min_p": 0.1,
    "prompt_logprobs": 1,
    "skip_special_tokens": False,
    "stop_token_ids": [1],
}


@pytest.mark.parametrize(("path", "base"), BOTH)
@pytest.mark.parametrize("field", UNSUPPORTED)
async def test_what_cannot_be_honoured_is_named(http, path, base, field):
    assert await refusal(http, path, base | {field: UNSUPPORTED[field]}) == ("unsupported_value", field)


CHAT_UNSUPPORTED = {
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "moderation": {"model": "m"},
    "prediction": {"type": "content", "content": "x"},
    "prompt_cache_options": {},
    "prompt_cache_retention": "24h",
    "reasoning_effort": "high",
    "service_tier": "priority",
    "store": True,
    "verbosity": "low",
    "web_search_options": {},
}


@pytest.mark.parametrize("field", CHAT_UNSUPPORTED)
async def test_what_chat_cannot_honour_is_named(http, field):
    body = CHAT | {field: CHAT_UNSUPPORTED[field]}
    assert await refusal(http, "/v1/chat/completions", body) == ("unsupported_value", field)


@pytest.mark.parametrize("field", [{"suffix": "end"}])
async def test_what_completions_cannot_honour_is_named(http, field):
    assert await refusal(http, "/v1/completions", TEXT | field) == ("unsupported_value", *field)


LOGPROBS = [
    ("/v1/chat/completions", CHAT | {"logprobs": 1}, "logprobs"),
    ("/v1/chat/completions", CHAT | {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ("/v1/chat/completions", CHAT | {"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ("/v1/chat/completions", CHAT | {"top_logprobs": 2}, "top_logprobs"),
    ("/v1/completions", TEXT | {"logprobs": 6}, "logprobs"),
    ("/v1/completions", TEXT | {"logprobs": -1}, "logprobs"),
    ("/v1/completions", TEXT | {"logprobs": True}, "logprobs"),
]


@pytest.mark.parametrize(("path", "body", "param"), LOGPROBS)
async def test_log_probabilities_are_asked_for_within_bounds(http, path, body, param):
    assert await refusal(http, path, body) == ("invalid_value", param)


@pytest.mark.parametrize(("path", "base"), BOTH)
async def test_unknown_fields_are_named(http, path, base):
    assert await refusal(http, path, base | {"tempature": 1}) == ("unknown_field", "tempature")
    assert await refusal(http, path, base | {"<odd>": 1}) == ("unknown_field", "<odd>")
    assert await refusal(http, path, base | {"unmask": {"thresh": 1}}) == ("unknown_field", "unmask.thresh")
    options = {"stream": True, "stream_options": {"usage": True}}
    assert await refusal(http, path, base | options) == ("unknown_field", "stream_options.usage")


EXTENSION = [
    ({"rule": "magic"}, "invalid_value", "unmask.rule"),
    ({"rule": "threshold", "steps": 4}, "invalid_value", "unmask.steps"),
    ({"steps": 0}, "invalid_value", "unmask.steps"),
    ({"steps": 2.5}, "invalid_value", "unmask.steps"),
    ({"block_length": 0}, "invalid_value", "unmask.block_length"),
    ({"threshold": 1.5}, "invalid_value", "unmask.threshold"),
    ({"threshold": "0.9"}, "invalid_value", "unmask.threshold"),
    ({"factor": -1}, "invalid_value", "unmask.factor"),
    ({"add_threshold": 2}, "invalid_value", "unmask.add_threshold"),
    ({"activate_threshold": -0.1}, "invalid_value", "unmask.activate_threshold"),
    ({"max_live_blocks": 0}, "invalid_value", "unmask.max_live_blocks"),
    ({"cache": "magic"}, "invalid_value", "unmask.cache"),
    ({"cache": "dual"}, "unsupported_value", "unmask.cache"),
    ({"canvas": "ops"}, "invalid_value", "unmask.canvas"),
    ({"canvas": "frames"}, "invalid_value", "unmask.canvas"),
    ({"ignore_eos": "yes"}, "invalid_value", "unmask.ignore_eos"),
    ({"early_exit": 1}, "invalid_value", "unmask.early_exit"),
    ({"end_tokens": "maybe"}, "invalid_value", "unmask.end_tokens"),
    ({"cfg_scale": -1}, "invalid_value", "unmask.cfg_scale"),
    ({"lookahead": 17}, "invalid_value", "unmask.lookahead"),
    ({"lookahead": 2, "rule": "origin"}, "unsupported_value", "unmask.lookahead"),
    ({"priority": 1}, "invalid_value", "unmask.priority"),
    ({"priority": "urgent"}, "invalid_value", "unmask.priority"),
    ({"deadline_ms": 0}, "invalid_value", "unmask.deadline_ms"),
    ({"deadline_ms": 3_600_001}, "invalid_value", "unmask.deadline_ms"),
    ({"timeout_ms": -5}, "invalid_value", "unmask.timeout_ms"),
    ({"timeout_ms": 2.5}, "invalid_value", "unmask.timeout_ms"),
    ({"service_class": "economy"}, "invalid_value", "unmask.service_class"),
]


@pytest.mark.parametrize(("path", "base"), BOTH)
@pytest.mark.parametrize(("options", "code", "param"), EXTENSION)
async def test_extension_values_are_checked(http, path, base, options, code, param):
    assert await refusal(http, path, base | {"unmask": options}) == (code, param)


VALUES = [
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"max_tokens": True}, "invalid_value", "max_tokens"),
    ({"max_tokens": "5"}, "invalid_value", "max_tokens"),
    ({"max_tokens": 100_000}, "context_length_exceeded", "max_tokens"),
    ({"min_tokens": 3}, "invalid_value", "min_tokens"),
    ({"temperature": -1}, "invalid_value", "temperature"),
    ({"top_p": 0}, "invalid_value", "top_p"),
    ({"top_k": -2}, "invalid_value", "top_k"),
    ({"seed": 2**64}, "invalid_value", "seed"),
    ({"stop": ""}, "invalid_value", "stop"),
    ({"stop": ["ok", ""]}, "invalid_value", "stop[1]"),
    ({"stop": ["x"] * 17}, "invalid_value", "stop"),
    ({"stop": 7}, "invalid_value", "stop"),
    ({"stream": "yes"}, "invalid_value", "stream"),
    ({"stream_options": {"include_usage": True}}, "invalid_value", "stream_options"),
    ({"ignore_eos": True, "unmask": {"ignore_eos": False}}, "invalid_value", "unmask.ignore_eos"),
    ({"logit_bias": {"five": 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"-5": 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"5": 101}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {"5": "1"}}, "invalid_value", "logit_bias.5"),
    ({"logit_bias": {"6": 1}}, "invalid_value", "logit_bias"),  # the mask
    ({"logit_bias": {"1024": 1}}, "invalid_value", "logit_bias"),
    ({"logit_bias": {str(n): 1 for n in range(2000)}}, "invalid_value", "logit_bias"),
    ({"logit_bias": [5]}, "invalid_value", "logit_bias"),
    ({"unmask": 3}, "invalid_value", "unmask"),
    ({"model": 7}, "invalid_value", "model"),
]


@pytest.mark.parametrize(("path", "base"), BOTH)
@pytest.mark.parametrize(("fields", "code", "param"), VALUES)
async def test_values_are_checked(http, path, base, fields, code, param):
    assert await refusal(http, path, base | fields) == (code, param)


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
MESSAGES = [
    ([], "invalid_value", "messages"),
    ("hi", "invalid_value", "messages"),
    ([{"role": "user"}], "invalid_value", "messages[0].content"),
    ([{"role": "user", "content": None}], "invalid_value", "messages[0].content"),
    ([{"content": "hi"}], "invalid_value", "messages[0].role"),
    ([{"role": "robot", "content": "4"}], "unsupported_value", "messages[0].role"),
    ([{"role": "tool", "content": "4"}], "invalid_value", "messages[0].tool_call_id"),
    ([{"role": "user", "content": "4", "tool_call_id": "1"}], "invalid_value", "messages[0].tool_call_id"),
    ([{"role": "user", "content": "4", "tool_calls": [CALL]}], "invalid_value", "messages[0].tool_calls"),
    (
        [{"role": "assistant", "tool_calls": [CALL | {"function": {"name": "f", "arguments": "[1]"}}]}],
        "invalid_value",
        "messages[0].tool_calls[0].function.arguments",
    ),
    ([{"role": "user", "content": "hi", "mood": 1}], "unknown_field", "messages[0].mood"),
    (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        "unsupported_value",
        "messages[0].content[0].type",
    ),
    (
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text"}]}],
        "invalid_value",
        "messages[0].content[1].text",
    ),
]


@pytest.mark.parametrize(("messages", "code", "param"), MESSAGES)
async def test_messages_are_checked(http, messages, code, param):
    assert await refusal(http, "/v1/chat/completions", {"messages": messages}) == (code, param)


PROMPTS = [
    (None, "invalid_value", "prompt"),
    ("", "invalid_value", "prompt"),
    ([], "invalid_value", "prompt"),
    (7, "invalid_value", "prompt"),
    ([[]], "invalid_value", "prompt[0]"),
    (["a", 7], "invalid_value", "prompt[1]"),
    ([6], "invalid_value", "prompt"),
    ([[5, 6]], "invalid_value", "prompt"),
    ([-1], "invalid_value", "prompt"),
    ([10**9], "invalid_value", "prompt"),
    (["x"] * 1000, "invalid_value", "prompt"),
    ("word " * 3000, "context_length_exceeded", "prompt"),
]


@pytest.mark.parametrize(("prompt", "code", "param"), PROMPTS)
async def test_prompts_are_checked(http, prompt, code, param):
    assert await refusal(http, "/v1/completions", {"prompt": prompt}) == (code, param)


async def test_deep_nesting_is_refused_as_any_other_value(http):
    deep: list = []
    for _ in range(900):
        deep = [deep]
    for field, code, param in [("tools", "invalid_value", "tools[0]"), ("store", "unsupported_value", "store")]:
        assert await refusal(http, "/v1/chat/completions", CHAT | {field: deep}) == (code, param)


async def test_chat_errors_name_chat_fields(http):
    path = "/v1/chat/completions"
    long = {"messages": [{"role": "user", "content": "word " * 3000}]}
    assert await refusal(http, path, long) == ("context_length_exceeded", "messages")
    body = {"messages": CHAT["messages"], "max_completion_tokens": 0}
    assert await refusal(http, path, body) == ("invalid_value", "max_completion_tokens")
    differ = CHAT | {"max_completion_tokens": 3}
    assert await refusal(http, path, differ) == ("invalid_value", "max_completion_tokens")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[1]",
        b'"hi"',
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"\\ud800": 1}',
        b'{"prompt": "\\udfff"}',
        b'{"prompt": "a", "temperature": NaN}',
        b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
        b'{"tools": ' + b"[" * 950 + b"]" * 950 + b"}",
    ],
)
async def test_bodies_that_are_no_request(http, path, data):
    async with http.post(path, data=data, headers={"content-type": "application/json"}) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["type"] == "invalid_request_error"


async def test_other_content_types_are_refused_with_advice(http):
    async with http.post("/v1/completions", data=b'{"prompt": "hi"}') as response:
        assert response.status == 400
        assert "Content-Type: application/json" in (await response.json())["error"]["message"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit_is_413(http, chunked):
    body = b'{"prompt": "' + b"x" * 2**20 + b'"}'

    async def pieces():
        yield body

    data = pieces() if chunked else io.BytesIO(body)
    async with http.post("/v1/completions", data=data, headers={"content-type": "application/json"}) as response:
        assert response.status == 413
        error = (await response.json())["error"]
    assert error["code"] == "request_too_large"
    assert "1 MiB" in error["message"]


async def test_another_model_is_404(http):
    async with http.post("/v1/completions", json=TEXT | {"model": "gpt-4"}) as response:
        assert response.status == 404
        error = (await response.json())["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v2", 404), ("PUT", "/v1/completions", 405)])
async def test_unknown_routes_answer_in_the_envelope(http, method, path, status):
    async with http.request(method, path) as response:
        assert response.status == status
        assert set((await response.json())["error"]) == {"message", "type", "param", "code"}

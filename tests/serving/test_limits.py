"""Every bound on what a request may hold has a name."""

from __future__ import annotations

import io
import json

import aiohttp
import pytest

from tests.serving.fakes import serving

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
JSON = {"content-type": "application/json"}


def nested(levels: int) -> dict:
    schema: dict = {"type": "integer"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def wide(count: int) -> dict:
    names = [f"{'a' * 20}{number}" for number in range(count)]
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}


BEYOND = {
    "body": (TEXT, {"prompt": "a" * 2**20}, 413, "request_too_large", None),
    "prompt": (TEXT, {"prompt": "7 " * 5000}, 400, "context_length_exceeded", "prompt"),
    "largest prompt": (TEXT, {"prompt": "7 " * 500_000}, 400, "context_length_exceeded", "prompt"),
    "conversation": (
        CHAT,
        {"messages": [{"role": "user", "content": "7 " * 5000}]},
        400,
        "context_length_exceeded",
        "messages",
    ),
    "ids": (TEXT, {"prompt": [9] * 2000}, 400, "context_length_exceeded", "prompt"),
    "prompts": (TEXT, {"prompt": ["a"] * 9}, 400, "invalid_value", "prompt"),
    "answer": (TEXT, {"prompt": "a", "max_tokens": 10**6}, 400, "context_length_exceeded", "max_tokens"),
    "stops": (TEXT, {"prompt": "a", "stop": ["x"] * 17}, 400, "invalid_value", "stop"),
    "stop": (TEXT, {"prompt": "a", "stop": "x" * 1025}, 400, "invalid_value", "stop"),
    "biases": (
        TEXT,
        {"prompt": "a", "logit_bias": {str(n): 1 for n in range(1025)}},
        400,
        "invalid_value",
        "logit_bias",
    ),
    "regex": (TEXT, {"prompt": "a", "unmask": {"regex": "a" * 70_000}}, 400, "invalid_value", "unmask.regex"),
    "schema's depth": (TEXT, {"prompt": "a", "unmask": {"json_schema": nested(80)}}, 400, "unsupported_value", None),
    "schema's size": (TEXT, {"prompt": "a", "unmask": {"json_schema": wide(8000)}}, 400, "unsupported_value", None),
    "choices": (TEXT, {"prompt": "a", "unmask": {"choices": ["a"] * 5000}}, 400, "invalid_value", "unmask.choices"),
}


@pytest.mark.parametrize("name", BEYOND)
async def test_beyond_a_bound(name):
    path, body, status, code, param = BEYOND[name]
    async with serving() as fake, aiohttp.ClientSession() as session:
        async with session.post(fake.url + path, data=io.BytesIO(json.dumps(body).encode()), headers=JSON) as response:
            error = (await response.json())["error"]
        assert (response.status, error["code"]) == (status, code), error["message"]
        assert len(error["message"]) < 600
        if param is not None:
            assert error["param"] == param
        assert not fake.engine.submitted

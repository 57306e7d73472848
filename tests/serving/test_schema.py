"""Captured bytes against OpenAI's published API description."""

from __future__ import annotations

import pytest

from tests.conformance.vendor_schemas import check
from tests.serving.wire import events

CHAT = {"messages": [{"role": "user", "content": "What is 7 + 8?"}]}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


async def post(http, path, body):
    async with http.post(path, json=body) as response:
        return await response.json()


async def stream(http, path, body):
    async with http.post(path, json=body | STREAM) as response:
        return events(await response.read())


async def test_chat(http):
    check(await post(http, "/v1/chat/completions", CHAT), "CreateChatCompletionResponse")
    check(await post(http, "/v1/chat/completions", CHAT | {"max_tokens": 1}), "CreateChatCompletionResponse")


@pytest.mark.parametrize("extra", [{}, {"max_tokens": 1}, {"unmask": {"canvas": "frames"}}])
async def test_chat_chunks(http, extra):
    for chunk in await stream(http, "/v1/chat/completions", CHAT | extra):
        check(chunk, "CreateChatCompletionStreamResponse")


@pytest.mark.parametrize("prompt", ["What is", ["What is", "The sky"]])
async def test_completions(http, prompt):
    check(await post(http, "/v1/completions", {"prompt": prompt}), "CreateCompletionResponse")


async def test_completion_chunks(http):
    chunks = await stream(http, "/v1/completions", {"prompt": ["What is", "The sky"]})
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["finish_reason"] is None:  # the description knows no null here, but real streams have it
                choice["finish_reason"] = "stop"
        if chunk["usage"] is None:
            del chunk["usage"]
        check(chunk, "CreateCompletionResponse")


async def test_models(http):
    async with http.get("/v1/models") as response:
        listing = await response.json()
    check(listing, "ListModelsResponse")
    async with http.get(f"/v1/models/{listing['data'][0]['id']}") as response:
        check(await response.json(), "Model")


@pytest.mark.parametrize("body", [{}, CHAT | {"nonsense": 1}, CHAT | {"model": "x"}, CHAT | {"n": 300}])
async def test_errors(http, body):
    check(await post(http, "/v1/chat/completions", body), "ErrorResponse")

"""What lanes say of errors, in the words of many servers, and what users are told of it."""

from __future__ import annotations

import json

import pytest

from tests.gateway.upstream.fake import Script, ask, chunk, event
from unmask.errors import (
    ContextLengthError,
    EngineStalledError,
    EngineUnavailableError,
    InvalidValueError,
    LaneKeyError,
    ModelNotFoundError,
    ModelUnsupportedEngineError,
    QueueFullError,
    UnmaskError,
    UpstreamError,
)
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.gateway.upstream.failures import TABLE, Told, failure_of, told_by_response


def openai(message, kind=None, code=None, **more):
    return {"error": {"message": message, "type": kind, "code": code, **more}}


LLAMA_CONTEXT = {
    "error": {
        "code": 400,
        "message": "request (5031 tokens) exceeds the available context size (1024 tokens), try increasing it",
        "type": "exceed_context_size_error",
    }
}
LOGITS = "the current context does not support logits computation. skipping"
SAID = [
    (500, openai(LOGITS, "server_error", 500), ModelUnsupportedEngineError),
    (500, openai("the current context does not logits computation. skipping"), ModelUnsupportedEngineError),
    (400, LLAMA_CONTEXT, ContextLengthError),
    (400, openai("too long", code="context_length_exceeded"), ContextLengthError),
    (400, openai("This model's maximum context length is 2048 tokens. However, you requested 9"), ContextLengthError),
    (400, {"object": "error", "message": "The input (9 tokens) is longer than the model's context length (2)"},
     ContextLengthError),
    (401, openai("Incorrect API key provided: sk-1", code="invalid_api_key"), LaneKeyError),
    (403, "<html><title>Forbidden</title></html>", LaneKeyError),
    (429, openai("You exceeded your current quota", code="insufficient_quota"), LaneKeyError),
    (404, openai("The model `x` does not exist", code="model_not_found"), ModelNotFoundError),
    (404, {"detail": "model 'x' is not loaded"}, ModelNotFoundError),
    (404, openai("File Not Found", "not_found_error", 404), UpstreamError),
    (429, openai("slow down", code="rate_limit_exceeded"), QueueFullError),
    (503, openai("Loading model", "unavailable_error", 503), EngineUnavailableError),
    (529, "overloaded", EngineUnavailableError),
    (504, "<html><head><title>504 Gateway Time-out</title>", EngineStalledError),
    (400, openai("Failed to initialize samplers: failed to parse grammar", "invalid_request_error"), InvalidValueError),
    (422, {"detail": [{"loc": ["body", "temperature"], "msg": "too hot"}]}, InvalidValueError),
    (500, "", UpstreamError),
    (502, {"error": "x"}, UpstreamError),
    (418, "[" * 100_000, UpstreamError),
]  # fmt: skip


def response(status, said, **more):
    text = said if isinstance(said, str) else json.dumps(said)
    kind = "text/html" if text.startswith("<") else "application/json"
    return Script([text.encode()] if text else [], status=status, content_type=kind, **more)


@pytest.mark.parametrize(("status", "said", "kind"), SAID)
async def test_by_a_response(status, said, kind):
    with pytest.raises(UnmaskError) as caught:
        await ask(response(status, said))
    assert type(caught.value) is kind
    assert "my-lane" in caught.value.message
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


MID_STREAM = [
    (openai(LOGITS, "server_error", 500), ModelUnsupportedEngineError),
    (LLAMA_CONTEXT, ContextLengthError),
    ({"error": "it broke"}, UpstreamError),
    ({"object": "error", "message": "no room", "code": 400}, InvalidValueError),
    ({"error": {"message": "busy", "code": 429}}, QueueFullError),
    ({"error": {"message": "later", "type": "overloaded_error"}}, EngineUnavailableError),
    ({"error": [{"message": "in a list", "code": 503}]}, EngineUnavailableError),
]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(("said", "kind"), MID_STREAM)
async def test_within_a_stream(said, kind, begun):
    before = [event(chunk(content="a"))] if begun else []
    with pytest.raises(UnmaskError) as caught:
        await ask(Script([*before, event(said), 60]))
    assert type(caught.value) is kind
    assert "my-lane" in caught.value.message


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b'error: {"code":500,"message":"slot is gone","type":"server_error"}\n\n', "slot is gone"),
        (b'event: error\ndata: {"error":{"message":"it broke"}}\n\n', "it broke"),
        (b'{"error":{"message":"no stream"}}\n', "no stream"),
    ],
)
async def test_errors_in_their_own_ways(raw, what):
    with pytest.raises(UpstreamError, match=what):
        await ask(Script([raw, 60]))


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, openai("busy"), 7),
        ({"Retry-After": "0.2"}, openai("busy"), 1),
        ({}, openai("busy", retry_after=3), 3),
        ({}, openai("busy") | {"retry_after": 4}, 4),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, openai("busy"), None),
        ({"Retry-After": "1e99"}, openai("busy"), 86_400),
        ({"Retry-After": "nan"}, openai("busy"), None),
        ({}, openai("busy"), None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_when_to_try_again(status, headers, body, seconds):
    with pytest.raises(UnmaskError) as caught:
        await ask(response(status, body, headers=headers))
    assert caught.value.retry_after == seconds


async def test_fields_at_fault():
    for status, said, param in [
        (400, openai("too hot", param="temperature"), "temperature"),
        (422, {"detail": [{"loc": ["body", "messages", 0, "role"], "msg": "bad"}]}, "messages.role"),
        (404, openai("no such model"), "model"),
        (401, openai("bad key", param="api_key"), None),
    ]:
        with pytest.raises(UnmaskError) as caught:
            await ask(response(status, said))
        assert caught.value.param == param


async def test_no_key_is_ever_told():
    for status in (400, 401, 500):
        with pytest.raises(UnmaskError) as caught:
            await ask(response(status, openai("the key sk-secret-1 is bad")), key="sk-secret-1")
        assert "secret" not in str(caught.value)


async def test_a_long_page_is_not_read_to_its_end():
    with pytest.raises(UpstreamError) as caught:
        await ask(Script([b"x" * 1_000_000] * 3, status=500, content_type="text/plain"))
    assert len(str(caught.value)) < 400


def test_every_row_can_be_reached():
    reached = {next(row for row in TABLE if row.fits(_told(status, said))) for status, said, _ in SAID}
    reached |= {next(row for row in TABLE if row.fits(told)) for told in (
        Told(307, frozenset(), ""), Told(0, frozenset(["invalid_request_error"]), ""),
        Told(0, frozenset(["overloaded"]), ""), Told(0, frozenset(["rate_limit_exceeded"]), ""))}  # fmt: skip
    assert reached == {*TABLE}


def _told(status, said):
    return told_by_response(status, {}, (said if isinstance(said, str) else json.dumps(said)).encode())


def test_the_teaching_error_says_what_to_do():
    where = Endpoint(lane="llama.cpp", kind="llama.cpp", base_url="http://x/v1", model="m")
    error = failure_of(Told(500, frozenset(), LOGITS), where)
    assert (error.code, error.status) == ("model_unsupported_engine", 400)
    assert "diffusion" in error.hint

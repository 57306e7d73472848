"""Every byte that a dialect sends, whole or in a stream, against what its owner says there shall be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.cases import CASES, TEXT
from tests.conformance.dialects import CHAT, COMPLETIONS, DIALECTS, RESPONSES, Dialect
from tests.conformance.http import get, post
from tests.conformance.vendor_schemas import check

WHOLE = {
    CHAT: "CreateChatCompletionResponse",
    COMPLETIONS: "CreateCompletionResponse",
    RESPONSES: "Response",
}
PIECES = {
    CHAT: "CreateChatCompletionStreamResponse",
    COMPLETIONS: "CreateCompletionResponse",
    RESPONSES: "ResponseStreamEvent",
}
OPENAI = [dialect for dialect in DIALECTS if dialect in WHOLE]
ASKED = [(dialect, case) for dialect in OPENAI for case in CASES if dialect.put(case) is not None]


def streamed(url: str, dialect: Dialect, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The payloads of a stream, whose frames must be well-formed."""
    reply = post(url, dialect.path, body | {"stream": True} | dialect.usage_options)
    assert reply.status == 200
    assert reply.headers["content-type"].split(";")[0] == "text/event-stream"
    frames = reply.body.decode().split("\n\n")
    assert frames.pop() == ""
    if dialect.done is not None:
        assert frames.pop() == dialect.done
    return [payload(frame) for frame in frames]


def payload(frame: str) -> dict[str, Any]:
    """A frame has one line of data; where it has a name, the data has it as its type."""
    *event, data = frame.split("\n")
    assert data.startswith("data: ")
    body: dict[str, Any] = json.loads(data.removeprefix("data: "))
    assert event in ([], [f"event: {body.get('type')}"])
    return body


def known_quirks(dialect: Dialect, body: dict[str, Any]) -> dict[str, Any] | None:
    """``body`` without what OpenAI's own servers send and its description forgets; None if nothing is left."""
    if dialect == COMPLETIONS:
        for choice in body["choices"]:
            if choice["finish_reason"] is None:
                choice["finish_reason"] = "stop"  # null, until the last piece
        if body.get("usage", 0) is None:
            del body["usage"]  # null, until the last piece
    if dialect == RESPONSES and body["type"] == "keepalive":
        return None  # an event that its libraries know
    return body


@pytest.mark.parametrize(("dialect", "case"), ASKED, ids=str)
def test_whole_answers(dialect, case, server):
    check(post(server.url, dialect.path, dialect.body(case)).json(), WHOLE[dialect])


@pytest.mark.parametrize("canvas", [False, True], ids=["", "canvas"])
@pytest.mark.parametrize(("dialect", "case"), ASKED, ids=str)
def test_pieces(dialect, case, canvas, server):
    body = dialect.body(case)
    pieces = streamed(server.url, dialect, dialect.extended(body, {"canvas": "frames"}) if canvas else body)
    assert pieces
    for piece in pieces:
        if (known := known_quirks(dialect, piece)) is not None:
            check(known, PIECES[dialect])


@pytest.mark.parametrize("dialect", OPENAI, ids=str)
@pytest.mark.parametrize(
    "wrong", [{"nonsense": 1}, {"model": "gpt-7"}, {"temperature": "hot"}, {"unmask": {"threshold": 7}}], ids=str
)
def test_errors(dialect, wrong, server):
    reply = post(server.url, dialect.path, dialect.body(TEXT) | wrong)
    assert reply.status in (400, 404)
    check(reply.json(), "ErrorResponse")


def test_models(server):
    listing = get(server.url, "/v1/models").json()
    check(listing, "ListModelsResponse")
    for model in listing["data"]:
        check(get(server.url, f"/v1/models/{model['id']}").json(), "Model")

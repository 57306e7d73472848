"""Answers on the wire: written without a server, and captured bytes read back."""

from __future__ import annotations

import json
from collections.abc import Iterable

from unmask.answers.answer import AnswerDelta
from unmask.serving.sse import StreamEncoder


def sent(stream: StreamEncoder, deltas: Iterable[AnswerDelta]) -> bytes:
    """The body of a ``stream`` of one answer."""
    parts = [*stream.start()]
    for delta in deltas:
        parts += stream.step(0, delta)
    return b"".join([*parts, *stream.end()])


def events(body: bytes) -> list[dict]:
    """The JSON payloads of an SSE body, which must be well-formed and end with [DONE]."""
    frames = body.decode().split("\n\n")
    assert frames[-1] == ""
    assert frames[-2] == "data: [DONE]"
    payloads = [frame for frame in frames[:-2] if not frame.startswith(":")]
    assert all(payload.startswith("data: ") and "\n" not in payload for payload in payloads)
    return [json.loads(payload.removeprefix("data: ")) for payload in payloads]


def text_of(chunks: list[dict], index: int = 0) -> str:
    """The concatenated text of one choice."""
    text = ""
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] == index:
                text += choice["delta"].get("content", "") if "delta" in choice else choice["text"]
    return text


def finish_of(chunks: list[dict], index: int = 0) -> str | None:
    """The finish reason of one choice; it must be given exactly once."""
    reasons = [
        choice["finish_reason"]
        for chunk in chunks
        for choice in chunk["choices"]
        if choice["index"] == index and choice["finish_reason"] is not None
    ]
    assert len(reasons) == 1
    return reasons[0]

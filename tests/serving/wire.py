"""Reading captured bytes back."""

from __future__ import annotations

import json


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

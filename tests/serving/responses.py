"""What tests of responses share: what is asked, events read back, and put together as client libraries do."""

from __future__ import annotations

import json

FINAL = ("response.completed", "response.incomplete", "response.failed")

SUM = "What is 7 + 8?"
LOGPROBS = "message.output_text.logprobs"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a place",
    "strict": True,
    "parameters": {"type": "object", "properties": {"place": {"enum": ["Paris", "Rome"]}}, "required": ["place"]},
}


def response_events(body: bytes) -> list[dict]:
    """The payloads of an SSE body: each named after its type, numbered from 0."""
    frames = body.decode().split("\n\n")
    assert frames.pop() == ""
    events = []
    for frame in frames:
        if frame.startswith(":"):
            continue
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def assembled(events: list[dict]) -> list[dict]:
    """The output that ``events`` build up, each item by its own events, which must come in order."""
    first, second, *others, last = [event for event in events if event["type"] not in ("keepalive", "error")]
    assert (first["type"], second["type"]) == ("response.created", "response.in_progress")
    assert first["response"] == second["response"]
    assert first["response"]["output"] == []
    assert last["type"] in FINAL
    output: list[dict] = []
    open_item: dict | None = None
    for event in others:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert open_item is None
            assert event["output_index"] == len(output)
            open_item = event["item"]
            assert open_item["status"] == "in_progress"
            continue
        assert open_item is not None
        assert event["output_index"] == len(output)
        assert event.get("item_id", open_item["id"]) == open_item["id"]
        match kind:
            case "content_part.added":
                assert open_item["content"] == []
                open_item["content"].append(event["part"])
            case "output_text.delta" | "reasoning_text.delta":
                part = open_item["content"][event["content_index"]]
                assert event["delta"] or event["logprobs"]
                part["text"] += event["delta"]
                if "logprobs" in part:
                    part["logprobs"] += event["logprobs"]
            case "output_text.done" | "reasoning_text.done":
                part = open_item["content"][event["content_index"]]
                assert event["text"] == part["text"]
                assert event.get("logprobs") == part.get("logprobs")
            case "content_part.done":
                assert event["part"] == open_item["content"][event["content_index"]]
            case "function_call_arguments.delta":
                assert event["delta"]
                open_item["arguments"] += event["delta"]
            case "function_call_arguments.done":
                assert (event["name"], event["arguments"]) == (open_item["name"], open_item["arguments"])
            case "output_item.done":
                open_item["status"] = event["item"]["status"]
                assert event["item"] == open_item
                output.append(open_item)
                open_item = None
            case _:
                raise AssertionError(kind)
    return output


def texts_of(output: list[dict], kind: str) -> list[str]:
    """The text of each item of the kind."""
    return ["".join(part["text"] for part in item["content"]) for item in output if item["type"] == kind]

"""Drives Anthropic's Python client, whatever its version."""

from __future__ import annotations

import json
from typing import Any

import anthropic
from loop import Seen, fitting, run


def connect(url: str, key: str, timeout: float) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=timeout)


def message(answer: Any, seen: Seen) -> None:
    """A whole message, as the client has it."""
    blocks = {
        kind: [block for block in answer.content if block.type == kind] for kind in ("text", "thinking", "tool_use")
    }
    seen.text = "".join(block.text for block in blocks["text"])
    seen.reasoning = "".join(block.thinking for block in blocks["thinking"])
    seen.calls = [
        {"id": block.id, "name": block.name, "arguments": json.dumps(block.input)} for block in blocks["tool_use"]
    ]
    seen.finish = answer.stop_reason
    seen.usage = [answer.usage.input_tokens, answer.usage.output_tokens]


def whole(client: anthropic.Anthropic, request: dict[str, Any], seen: Seen) -> None:
    message(client.messages.create(**fitting(client.messages.create, request)), seen)


def stream(client: anthropic.Anthropic, request: dict[str, Any], seen: Seen) -> None:
    """What everybody writes: add up the deltas."""
    seen.usage = [0, 0]
    if anthropic.__version__.startswith("0."):
        seen.frames = None  # it drops events of kinds that it does not know
    with client.messages.create(**fitting(client.messages.create, request | {"stream": True})) as events:
        for event in events:
            if event.type == "message_start":
                seen.usage = [event.message.usage.input_tokens, 0]
            elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                block = event.content_block
                seen.calls.append({"id": block.id, "name": block.name, "arguments": ""})
            elif event.type == "content_block_delta":
                piece(event.delta, seen)
            elif event.type == "message_delta":
                seen.finish = event.delta.stop_reason
                seen.usage[1] = event.usage.output_tokens
            elif event.type == "dllm_canvas":
                seen.frames += 1


def piece(delta: Any, seen: Seen) -> None:
    if delta.type == "thinking_delta":
        seen.thoughts.append(delta.thinking)
    elif delta.type == "input_json_delta":
        seen.calls[-1]["arguments"] += delta.partial_json
    elif delta.type == "text_delta":
        seen.add(delta.text)


def helper(client: anthropic.Anthropic, request: dict[str, Any], seen: Seen) -> None:
    """The client's own accumulator."""
    seen.frames = None
    with client.messages.stream(**fitting(client.messages.stream, request)) as events:
        for event in events:
            if event.type == "thinking":
                seen.thoughts.append(event.thinking)
            elif event.type == "text":
                seen.add(event.text)
        message(events.get_final_message(), seen)


run(connect, {"messages whole": whole, "messages stream": stream, "messages helper": helper})

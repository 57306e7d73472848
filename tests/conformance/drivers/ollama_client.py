"""Drives Ollama's Python client, whatever its version."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import ollama
from loop import Seen, run


def connect(url: str, key: str, timeout: float) -> ollama.Client:
    return ollama.Client(url, timeout=timeout, headers={"Authorization": f"Bearer {key}"})


def chat_part(part: Any, seen: Seen) -> str:
    """One line of a chat, or all of it: thoughts and calls are noted, its text returned."""
    if part.message.thinking:
        seen.thoughts.append(part.message.thinking)
    for call in part.message.tool_calls or []:
        arguments = json.dumps(dict(call.function.arguments))
        seen.calls.append({"id": f"call {len(seen.calls)}", "name": call.function.name, "arguments": arguments})
    end(part, seen)
    return part.message.content or ""


def generate_part(part: Any, seen: Seen) -> str:
    if part.thinking:
        seen.thoughts.append(part.thinking)
    end(part, seen)
    return part.response


def end(part: Any, seen: Seen) -> None:
    if part.done:
        seen.finish = part.done_reason
        seen.usage = [part.prompt_eval_count, part.eval_count]
        for name in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration"):
            assert isinstance(part[name], int), name


def whole(method: Any, read: Any, request: dict[str, Any], seen: Seen) -> None:
    seen.text = read(method(**request | {"stream": False}), seen)
    seen.reasoning, seen.thoughts = "".join(seen.thoughts), []


def stream(method: Any, read: Any, request: dict[str, Any], seen: Seen) -> None:
    seen.frames = None  # the client drops fields that it does not know
    with contextlib.closing(method(**request | {"stream": True})) as parts:
        for part in parts:
            seen.add(read(part, seen))


run(
    connect,
    {
        "ollama-chat whole": lambda client, *job: whole(client.chat, chat_part, *job),
        "ollama-chat stream": lambda client, *job: stream(client.chat, chat_part, *job),
        "ollama-generate whole": lambda client, *job: whole(client.generate, generate_part, *job),
        "ollama-generate stream": lambda client, *job: stream(client.generate, generate_part, *job),
    },
)

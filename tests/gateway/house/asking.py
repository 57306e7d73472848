"""One question in every dialect, streamed and whole; what came of it, read as that dialect's clients do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

CHATS = ("chat", "responses", "messages", "api/chat", "api/generate")
DIALECTS = (*CHATS, "completions")

_PATHS = {
    "chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses",
    "messages": "/v1/messages", "api/chat": "/api/chat", "api/generate": "/api/generate",
}  # fmt: skip


@dataclass
class Told:
    """The ``text``, which may have been cut off by an error: its ``code`` and its ``message``. ``frames``: how many
    pieces of text there were. ``complete``: whether the answer's end was told.
    """

    status: int
    text: str = ""
    code: str | None = None
    message: str = ""
    frames: int = 0
    complete: bool = False
    retry_after: str | None = None


def body(dialect: str, model: str | None, prompt: str, tokens: int, *, stream: bool, **more: Any) -> dict[str, Any]:
    """The request, at temperature 0."""
    said: dict[str, Any] = {"stream": stream, **({} if model is None else {"model": model})}
    talk = [{"role": "user", "content": prompt}]
    match dialect:
        case "chat" | "messages":
            said |= {"messages": talk, "max_tokens": tokens, "temperature": 0}
        case "completions":
            said |= {"prompt": prompt, "max_tokens": tokens, "temperature": 0}
        case "responses":
            said |= {"input": prompt, "max_output_tokens": tokens, "temperature": 0}
        case "api/chat":
            said |= {"messages": talk, "options": {"num_predict": tokens, "temperature": 0}}
        case "api/generate":
            said |= {"prompt": prompt, "options": {"num_predict": tokens, "temperature": 0}}
    return said | more


async def ask(
    session: aiohttp.ClientSession, url: str, dialect: str, model: str | None, prompt: str, tokens: int = 12,
    *, stream: bool = False, on_text: Any = None, **more: Any,
) -> Told:  # fmt: skip
    """Ask, and read to the end. ``on_text`` is called with what is there once each piece of text has come."""
    said = body(dialect, model, prompt, tokens, stream=stream, **more)
    async with session.post(url + _PATHS[dialect], json=said) as response:
        told = Told(response.status, retry_after=response.headers.get("retry-after"))
        if response.status != 200 or not stream:
            _whole(dialect, told, json.loads(await response.read()))
            return told
        async for line in response.content:
            _line(dialect, told, line.decode())
            if on_text is not None and told.frames:
                on_text(told)
    return told


def _whole(dialect: str, told: Told, answer: dict[str, Any]) -> None:
    if told.status != 200:
        _failed(dialect, told, answer)
        return
    told.complete = True
    match dialect:
        case "chat":
            told.text = answer["choices"][0]["message"]["content"] or ""
        case "completions":
            told.text = answer["choices"][0]["text"]
        case "responses":
            told.text = "".join(
                part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]
            )
        case "messages":
            told.text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        case "api/chat":
            told.text = answer["message"]["content"]
        case "api/generate":
            told.text = answer["response"]


def _line(dialect: str, told: Told, line: str) -> None:
    """Read one line of a stream."""
    line = line.strip()
    if dialect.startswith("api/"):
        event = json.loads(line)
    elif line == "data: [DONE]":
        told.complete = True
        return
    elif line.startswith("data: "):
        event = json.loads(line.removeprefix("data: "))
    else:
        return
    if "error" in event and event.get("type") != "response.failed":
        _failed(dialect, told, event)
        return
    match dialect:
        case "chat":
            more = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        case "completions":
            more = "".join(choice["text"] for choice in event["choices"])
        case "responses":
            more = event["delta"] if event["type"] == "response.output_text.delta" else ""
            told.complete |= event["type"] in ("response.completed", "response.incomplete")
            if event["type"] in ("response.failed", "error"):
                _failed(dialect, told, event.get("response") or {"error": event})
        case "messages":
            more = event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""
            told.complete |= event["type"] == "message_stop"
        case _:
            more = event["message"]["content"] if dialect == "api/chat" else event["response"]
            told.complete |= event["done"]
    told.text += more
    told.frames += bool(more)


def _failed(dialect: str, told: Told, answer: dict[str, Any]) -> None:
    """An error: what tells programs which, and the words. Responses are told of it once more, by a wider code."""
    if told.code is not None:
        return
    error = answer["error"]
    if isinstance(error, str):  # Ollama's
        told.message, told.code = error, answer.get("code", "")
    else:
        told.message, told.code = error["message"], error.get("code") or error["type"]

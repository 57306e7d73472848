"""Drives OpenAI's Python client, whatever its version."""

from __future__ import annotations

from typing import Any

import openai
from loop import Seen, fitting, run

USAGE = {"stream": True, "stream_options": {"include_usage": True}}


def connect(url: str, key: str, timeout: float) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=timeout)


def billed(usage: Any) -> list[int]:
    return [usage.prompt_tokens, usage.completion_tokens]


def frame(thing: Any) -> int:
    """1 if a chunk carries a canvas frame."""
    return int("canvas" in ((thing.model_extra or {}).get("unmask") or {}))


def chat_message(message: Any, seen: Seen) -> None:
    """A whole message, as the client has it."""
    seen.text = message.content or ""
    seen.reasoning = getattr(message, "reasoning_content", None) or ""
    seen.calls = [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in message.tool_calls or []
    ]


def chat_whole(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    answer = client.chat.completions.create(**fitting(client.chat.completions.create, request))
    chat_message(answer.choices[0].message, seen)
    seen.finish = answer.choices[0].finish_reason
    seen.usage = billed(answer.usage)


def chat_stream(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    """What everybody writes: add up the deltas."""
    with client.chat.completions.create(**fitting(client.chat.completions.create, request | USAGE)) as stream:
        for chunk in stream:
            seen.frames += frame(chunk)
            for choice in chunk.choices:
                chat_delta(choice.delta, seen)
                seen.finish = choice.finish_reason or seen.finish
            if chunk.usage:
                seen.usage = billed(chunk.usage)


def chat_delta(delta: Any, seen: Seen) -> None:
    for piece in delta.tool_calls or []:
        if piece.index == len(seen.calls):
            seen.calls.append({"id": piece.id, "name": piece.function.name, "arguments": ""})
        seen.calls[piece.index]["arguments"] += piece.function.arguments or ""
    if thought := getattr(delta, "reasoning_content", None):
        seen.thoughts.append(thought)
    seen.add(delta.content or "")


def chat_helper(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    """The client's own accumulator."""
    method = client.chat.completions.stream
    options = {"stream_options": USAGE["stream_options"]}
    with method(**fitting(method, request | options)) as stream:
        for event in stream:
            if event.type == "chunk":
                seen.frames += frame(event.chunk)
                for choice in event.chunk.choices:
                    if thought := getattr(choice.delta, "reasoning_content", None):
                        seen.thoughts.append(thought)
            if event.type == "content.delta":
                seen.add(event.delta)
        answer = accumulated(stream)
    chat_message(answer.choices[0].message, seen)
    seen.finish = answer.choices[0].finish_reason
    seen.usage = billed(answer.usage)


def accumulated(stream: Any) -> Any:
    """The accumulator's answer; it raises one that was cut off by its length."""
    try:
        return stream.get_final_completion()
    except openai.LengthFinishReasonError as error:
        return error.completion


def completions_whole(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    answer = client.completions.create(**fitting(client.completions.create, request))
    seen.text = answer.choices[0].text
    seen.finish = answer.choices[0].finish_reason
    seen.usage = billed(answer.usage)


def completions_stream(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    with client.completions.create(**fitting(client.completions.create, request | USAGE)) as stream:
        for chunk in stream:
            seen.frames += frame(chunk)
            for choice in chunk.choices:
                seen.add(choice.text)
                seen.finish = choice.finish_reason or seen.finish
            if chunk.usage:
                seen.usage = billed(chunk.usage)


def responses_whole(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    response(client.responses.create(**fitting(client.responses.create, request)), seen)


def responses_stream(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    with client.responses.create(**fitting(client.responses.create, request | {"stream": True})) as stream:
        for event in stream:
            response_event(event, seen)
            if event.type in ("response.completed", "response.incomplete"):
                response(event.response, seen)


def responses_helper(client: openai.OpenAI, request: dict[str, Any], seen: Seen) -> None:
    """The client's own accumulator. It holds that an answer which was cut off is none."""
    with client.responses.stream(**fitting(client.responses.stream, request)) as stream:
        for event in stream:
            response_event(event, seen)
            if event.type == "response.incomplete":
                return response(event.response, seen)
        response(stream.get_final_response(), seen)


def response_event(event: Any, seen: Seen) -> None:
    seen.frames += frame(event)
    if event.type == "response.reasoning_text.delta":
        seen.thoughts.append(event.delta)
    if event.type == "response.output_text.delta":
        seen.add(event.delta)
    if event.type in ("response.failed", "error"):
        raise Failed(event)


class Failed(Exception):
    """The stream told of an error, which this library does not raise."""

    def __init__(self, event: Any) -> None:
        error = event if event.type == "error" else event.response.error
        super().__init__(error.message)
        self.code = error.code


def response(answer: Any, seen: Seen) -> None:
    """A whole response, as the client has it."""
    seen.text = answer.output_text
    thoughts = [part.text for item in answer.output if item.type == "reasoning" for part in item.content or []]
    seen.reasoning = "".join(thoughts)
    seen.calls = [
        {"id": item.call_id, "name": item.name, "arguments": item.arguments}
        for item in answer.output
        if item.type == "function_call"
    ]
    seen.finish = answer.incomplete_details.reason if answer.incomplete_details else answer.status
    seen.usage = [answer.usage.input_tokens, answer.usage.output_tokens]


run(
    connect,
    {
        "chat whole": chat_whole,
        "chat stream": chat_stream,
        "chat helper": chat_helper,
        "completions whole": completions_whole,
        "completions stream": completions_stream,
        "responses whole": responses_whole,
        "responses stream": responses_stream,
        "responses helper": responses_helper,
    },
)

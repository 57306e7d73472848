"""From the request body to messages and parameters."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.params import GenerationParams
from unmask.serving.dialects.openai_chat.logprobs import wanted
from unmask.serving.dialects.openai_chat.wire import ChatRequest
from unmask.serving.dialects.openai_common.messages import parse_messages
from unmask.serving.dialects.openai_common.parse import agree, format_names, parse_params, wants_usage


@dataclass(frozen=True, slots=True)
class ParsedChat:
    """A chat request in the engine's words. ``names`` maps parameters to the request's fields, for errors."""

    messages: list[dict[str, str]]
    params: GenerationParams
    include_usage: bool
    names: dict[str, str]


def parse(body: ChatRequest) -> ParsedChat:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    max_tokens = agree("max_tokens", body.max_tokens, "max_completion_tokens", body.max_completion_tokens)
    limit = "max_tokens" if body.max_completion_tokens is None else "max_completion_tokens"
    return ParsedChat(
        messages=parse_messages(body.messages),
        params=parse_params(body, max_tokens, wanted(body)),
        include_usage=wants_usage(body),
        names={"prompt": "messages", "max_tokens": limit, "logprobs": "top_logprobs"} | format_names(body),
    )

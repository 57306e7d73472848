"""From request bodies to conversations, or prompts, in no dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unmask.answers.tools import Tool
from unmask.errors import ContextLengthError, InvalidValueError
from unmask.params import GenerationParams, ModelInfo
from unmask.serving.chat import Chat
from unmask.serving.dialects.ollama import wire
from unmask.serving.dialects.ollama.conversation import parse_conversation
from unmask.serving.dialects.ollama.options import Options
from unmask.serving.options import alternatives, decoding_options
from unmask.serving.stop import parse_stop

EXTENSION = "options.unmask"

_ANY_OBJECT = {"type": "object"}
_OWN = ("temperature", "top_p", "top_k", "seed", "stop")
_UNLIMITED = (-1, -2)  # both mean: as far as the context goes


def names(prompt: str) -> dict[str, str]:
    """How errors name parameters that have other names here; the prompt is the field ``prompt``."""
    known = {"prompt": prompt, "max_tokens": "options.num_predict", "json_schema": "format", "thinking": "think"}
    return known | {name: f"options.{name}" for name in _OWN} | {"logprobs": "top_logprobs"}


def parse_chat(body: wire.ChatRequest) -> Chat:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    messages, prefill = parse_conversation(body.messages or [])
    functions = [tool.function for tool in body.tools or ()]
    tools = [
        Tool(function.name, function.description or "", function.parameters, bool(function.strict), path)
        for path, function in ((f"tools[{number}].function", function) for number, function in enumerate(functions))
    ]
    return Chat(messages=messages, params=parse_params(body), tools=tools, prefill=prefill, **_thinking(body))


def parse_generate(body: wire.GenerateRequest) -> Chat:
    """The same of a lone prompt."""
    turns = [("system", body.system), ("user", body.prompt)]
    messages = [{"role": role, "content": text} for role, text in turns if text]
    return Chat(messages=messages, params=parse_params(body), **_thinking(body))


def check_raw(body: wire.GenerateRequest) -> None:
    """Raises ``InvalidValueError`` for what a prompt without a chat template has no place for."""
    for name in ("system", "think"):
        if getattr(body, name):
            raise InvalidValueError(
                f"'{name}' goes through the chat template, which a raw prompt does not.",
                hint="Leave it out.",
                param=name,
            )


def parse_params(body: wire.AnswerRequest) -> GenerationParams:
    """What ``body`` asks for, but for limits that depend on the prompt: see ``fit``."""
    options = body.options or Options()
    schema = _ANY_OBJECT if body.format == "json" else body.format or None
    return GenerationParams(
        max_tokens=None if options.num_predict in _UNLIMITED else options.num_predict,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        seed=options.seed,
        stop=parse_stop(options.stop),
        logprobs=alternatives(body.top_logprobs, asked=bool(body.logprobs), by="'logprobs': true"),
        **decoding_options(options.unmask, stream=streams(body), schema=schema, schema_name="format", at=EXTENSION),
    )


def streams(body: wire.AnswerRequest) -> bool:
    """Whether the answer is streamed: it is, unless told otherwise."""
    return body.stream is not False


def fit(params: GenerationParams, options: Options | None, prompt: list[int], variant: ModelInfo) -> GenerationParams:
    """``params`` within what ``num_ctx`` leaves beside ``prompt``, and with all of it if that is asked for.

    ``num_predict`` is the most that an answer may have, as in Ollama, and may be more than there is room for. Without
    any room the request is refused. Raises ``ContextLengthError`` if that is for ``num_ctx``.
    """
    options = options or Options()
    limit = min(options.num_ctx or variant.context_length, variant.context_length)
    room = limit - len(prompt)
    if limit < variant.context_length and room < 1:
        raise ContextLengthError(
            f"{len(prompt)} prompt tokens leave no room for an answer in 'options.num_ctx', which is {limit}.",
            hint="Shorten the prompt, or leave 'num_ctx' out.",
            param="options.num_ctx",
        )
    if room < 1:
        return params
    if params.max_tokens is not None:
        return replace(params, max_tokens=min(params.max_tokens, room))
    unlimited = options.num_predict in _UNLIMITED
    return replace(params, max_tokens=room if unlimited else min(variant.max_tokens, room))


def _thinking(body: wire.AnswerRequest) -> dict[str, Any]:
    """A level is a yes, for models that know of no levels."""
    level = body.think if isinstance(body.think, str) else None
    return {"thinking": None if body.think is None else body.think is not False, "effort": level}

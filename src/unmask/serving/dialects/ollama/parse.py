"""From request bodies to conversations, or prompts, in no dialect."""

from __future__ import annotations

from typing import Any

from unmask.answers.chat import Chat, Continuation, Length
from unmask.answers.tools import Tool
from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.serving.dialects.ollama import wire
from unmask.serving.dialects.ollama.conversation import parse_conversation
from unmask.serving.dialects.ollama.options import Options
from unmask.serving.options import alternatives, decoding_options
from unmask.serving.stop import parse_stop

EXTENSION = "options.unmask"

_ANY_OBJECT = {"type": "object"}
_OWN = (
    "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repeat_last_n", "seed", "stop",
)  # fmt: skip
_UNLIMITED = (-1, -2)  # both mean: as far as the context goes


def names(prompt: str) -> dict[str, str]:
    """How errors name parameters that have other names here; the prompt is the field ``prompt``."""
    known = {"prompt": prompt, "max_tokens": "options.num_predict", "json_schema": "format", "thinking": "think"}
    known |= {"context": "options.num_ctx", "repetition_penalty": "options.repeat_penalty"}
    return known | {name: f"options.{name}" for name in _OWN} | {"logprobs": "top_logprobs"}


def parse_chat(body: wire.ChatRequest) -> Chat:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    messages, prefill = parse_conversation(body.messages or [])
    functions = [tool.function for tool in body.tools or ()]
    tools = [
        Tool(function.name, function.description or "", function.parameters, bool(function.strict), path)
        for path, function in ((f"tools[{number}].function", function) for number, function in enumerate(functions))
    ]
    return Chat(
        messages=messages, params=_params(body), tools=tools, prefill=prefill, length=_length(body), **_thinking(body)
    )


def parse_generate(body: wire.GenerateRequest) -> Chat:
    """The same of a lone prompt."""
    turns = [("system", body.system), ("user", body.prompt)]
    messages = [{"role": role, "content": text} for role, text in turns if text]
    return Chat(messages=messages, params=_params(body), length=_length(body), **_thinking(body))


def parse_raw(body: wire.GenerateRequest) -> Continuation:
    """The same of a prompt that stands as it is. Raises ``InvalidValueError`` for what has no place in it."""
    for name in ("system", "think"):
        if getattr(body, name):
            raise InvalidValueError(
                f"'{name}' goes through the chat template, which a raw prompt does not.",
                hint="Leave it out.",
                param=name,
            )
    return Continuation(texts=[body.prompt or ""], params=_params(body), length=_length(body))


def _params(body: wire.AnswerRequest) -> GenerationParams:
    options = body.options or Options()
    schema = _ANY_OBJECT if body.format == "json" else body.format or None
    return GenerationParams(
        max_tokens=None if options.num_predict in _UNLIMITED else options.num_predict,
        temperature=options.temperature,
        top_p=options.top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        repetition_penalty=options.repeat_penalty,
        repeat_last_n=options.repeat_last_n,
        seed=options.seed,
        stop=parse_stop(options.stop),
        logprobs=alternatives(body.top_logprobs, asked=bool(body.logprobs), by="'logprobs': true"),
        **decoding_options(options.unmask, stream=streams(body), schema=schema, schema_name="format", at=EXTENSION),
    )


def streams(body: wire.AnswerRequest) -> bool:
    """Whether the answer is streamed: it is, unless told otherwise."""
    return body.stream is not False


def _length(body: wire.AnswerRequest) -> Length:
    """``num_predict`` is no more than a bound."""
    options = body.options or Options()
    return Length(all=options.num_predict in _UNLIMITED, context=options.num_ctx)


def _thinking(body: wire.AnswerRequest) -> dict[str, Any]:
    """A level is a yes, for models that know of no levels."""
    level = body.think if isinstance(body.think, str) else None
    return {"thinking": None if body.think is None else body.think is not False, "effort": level}

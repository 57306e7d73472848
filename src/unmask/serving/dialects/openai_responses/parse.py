"""From the request body to a conversation in no dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.serving.chat import ChatRequest
from unmask.serving.dialects.openai_responses.conversation import chat_messages
from unmask.serving.dialects.openai_responses.items import Item
from unmask.serving.dialects.openai_responses.text_format import schema_of
from unmask.serving.dialects.openai_responses.tools import parse_choice, parse_tools
from unmask.serving.dialects.openai_responses.wire import LOGPROBS, CountRequest, ResponseRequest
from unmask.serving.extension import UnmaskOptions


def parse(body: ResponseRequest, previous: Sequence[Item], new: Sequence[Item]) -> ChatRequest:
    """The meaning of ``body``, whose ``new`` items follow ``previous`` ones.

    Raises ``InvalidValueError`` where fields contradict each other.
    """
    return replace(parse_prompt(body, previous, new), params=_parse_params(body))


def parse_prompt(body: CountRequest, previous: Sequence[Item], new: Sequence[Item]) -> ChatRequest:
    """The same, as far as the prompt goes."""
    effort = None if body.reasoning is None else body.reasoning.effort
    return ChatRequest(
        messages=chat_messages(body.instructions, previous, new),
        params=GenerationParams(),
        tools=parse_tools(body.tools),
        choice=parse_choice(body.tool_choice),
        one_call=body.parallel_tool_calls is False,
        thinking=None if effort is None else effort != "none",
        effort=None if effort == "none" else effort,
    )


def own_names(body: CountRequest) -> dict[str, str]:
    """How this dialect calls parameters, for errors."""
    names = {
        "prompt": "input",
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "logprobs": "top_logprobs",
        "thinking": "reasoning.effort",
    }
    return names if schema_of(body.text) is None else names | {"json_schema": "text.format"}


def _parse_params(body: ResponseRequest) -> GenerationParams:
    options = body.unmask or UnmaskOptions()
    if body.stream_options is not None and not body.stream:
        raise InvalidValueError("'stream_options' needs 'stream': true.", param="stream_options")
    if options.canvas is not None and not body.stream:
        raise InvalidValueError("'unmask.canvas' needs 'stream': true.", param="unmask.canvas")
    decoding = options.decoding()
    schema = schema_of(body.text)
    if schema is not None:
        if decoding["json_schema"] is not None:
            raise InvalidValueError(
                "'text.format' and 'unmask.json_schema' both say what the answer looks like.",
                hint="Give one of them.",
                param="unmask.json_schema",
            )
        decoding["json_schema"] = schema
    return GenerationParams(
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        seed=body.seed,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        ignore_eos=bool(options.ignore_eos),
        logprobs=_parse_logprobs(body),
        frames=options.canvas == "frames",
        **decoding,
    )


def _parse_logprobs(body: ResponseRequest) -> int | None:
    """How many alternatives are asked for with each token; None for no log-probabilities."""
    if LOGPROBS in (body.include or ()):
        return body.top_logprobs or 0
    if body.top_logprobs:
        raise InvalidValueError(f"'top_logprobs' needs 'include': [\"{LOGPROBS}\"].", param="top_logprobs")
    return None

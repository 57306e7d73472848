"""From the request body to a conversation in no dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unmask.answers.chat import Chat
from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.serving.dialects.openai_common.parse import parse_effort
from unmask.serving.dialects.openai_responses.conversation import chat_messages
from unmask.serving.dialects.openai_responses.items import Item
from unmask.serving.dialects.openai_responses.text_format import schema_of
from unmask.serving.dialects.openai_responses.tools import parse_choice, parse_tools
from unmask.serving.dialects.openai_responses.wire import LOGPROBS, CountRequest, ResponseRequest
from unmask.serving.options import alternatives, decoding_options
from unmask.serving.stop import parse_stop


def parse(body: ResponseRequest, previous: Sequence[Item], new: Sequence[Item]) -> Chat:
    """The meaning of ``body``, whose ``new`` items follow ``previous`` ones.

    Raises ``InvalidValueError`` where fields contradict each other.
    """
    return replace(parse_prompt(body, previous, new), params=_parse_params(body))


def parse_prompt(body: CountRequest, previous: Sequence[Item], new: Sequence[Item]) -> Chat:
    """The same, as far as the prompt goes."""
    effort = None if body.reasoning is None else body.reasoning.effort
    return Chat(
        messages=chat_messages(body.instructions, previous, new),
        params=GenerationParams(),
        tools=parse_tools(body.tools),
        choice=parse_choice(body.tool_choice),
        one_call=body.parallel_tool_calls is False,
        **parse_effort(effort),
    )


def names(body: CountRequest) -> dict[str, str]:
    """How errors name what has become of the fields of ``body``."""
    known = {
        "prompt": "input",
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "logprobs": "top_logprobs",
        "thinking": "reasoning.effort",
    }
    return known if schema_of(body.text) is None else known | {"json_schema": "text.format"}


def _parse_params(body: ResponseRequest) -> GenerationParams:
    if body.stream_options is not None and not body.stream:
        raise InvalidValueError("'stream_options' needs 'stream': true.", param="stream_options")
    told = LOGPROBS in (body.include or ())
    return GenerationParams(
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        **body.sampling(),
        seed=body.seed,
        stop=parse_stop(body.stop),
        logprobs=alternatives(body.top_logprobs, asked=told, by=f"'include': [\"{LOGPROBS}\"]"),
        **decoding_options(
            body.unmask, stream=bool(body.stream), schema=schema_of(body.text), schema_name="text.format"
        ),
    )

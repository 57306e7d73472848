"""From the shared request fields to ``GenerationParams``."""

from __future__ import annotations

import re
from typing import Any

from unmask.errors import InvalidValueError
from unmask.params import GenerationParams
from unmask.serving.dialects.openai_common.response_format import schema_of
from unmask.serving.dialects.openai_common.wire import OpenAIRequest
from unmask.serving.fields import agree
from unmask.serving.options import decoding_options
from unmask.serving.stop import parse_stop


def parse_params(
    body: OpenAIRequest, max_tokens: int | None, logprobs: int | None, *, frames: bool = False
) -> GenerationParams:
    """What ``body`` asks for; ``max_tokens``, ``logprobs`` and ``frames`` have been settled by the dialect."""
    if body.stream_options is not None and not (body.stream or frames):
        raise InvalidValueError("'stream_options' needs 'stream': true.", param="stream_options")
    decoding = decoding_options(
        body.unmask, stream=bool(body.stream), schema=schema_of(body.response_format), schema_name="response_format"
    )
    own = None if body.unmask is None else body.unmask.ignore_eos
    decoding["ignore_eos"] = bool(agree("ignore_eos", body.ignore_eos, "unmask.ignore_eos", own))
    decoding["frames"] |= frames
    return GenerationParams(
        max_tokens=max_tokens,
        min_tokens=body.min_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        **body.sampling(),
        seed=body.seed,
        stop=parse_stop(body.stop),
        logprobs=logprobs,
        logit_bias=parse_biases(body.logit_bias) if body.logit_bias else None,
        **decoding,
    )


def parse_effort(effort: str | None) -> dict[str, Any]:
    """Whether to reason, and how much, as ``Chat`` has it: no effort means not at all."""
    thinking = None if effort is None else effort != "none"
    return {"thinking": thinking, "effort": effort if thinking else None}


def format_names(body: OpenAIRequest) -> dict[str, str]:
    """How errors name what ``response_format`` has become."""
    return {} if schema_of(body.response_format) is None else {"json_schema": "response_format"}


def parse_biases(biases: dict[str, float]) -> dict[int, float]:
    """Biases by token id, which keys of JSON objects can only be as text."""
    wrong = next((token for token in biases if not re.fullmatch("0|[1-9][0-9]{0,8}", token)), None)
    if wrong is not None:
        raise InvalidValueError(
            f"'logit_bias' names {wrong[:100]!r}, which is no token id.",
            hint="Ids are integers, written as text.",
            param="logit_bias",
        )
    return {int(token): value for token, value in biases.items()}


def wants_usage(body: OpenAIRequest) -> bool:
    """Whether a stream shall end with a usage chunk."""
    return body.stream_options is not None and bool(body.stream_options.include_usage)

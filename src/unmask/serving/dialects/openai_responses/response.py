"""The response object: as it is begun, finished, failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from unmask.answers.answer import Answer
from unmask.serving.dialects.openai_common.head import Head
from unmask.serving.dialects.openai_responses.items import OutputItem
from unmask.serving.dialects.openai_responses.text_format import echo_format
from unmask.serving.dialects.openai_responses.tools import ChoiceEcho, ToolEcho, echo_choice, echo_tools
from unmask.serving.dialects.openai_responses.wire import Reasoning, ResponseRequest
from unmask.serving.errors import Problem
from unmask.serving.extension import GenerationReport


class InputTokensDetails(msgspec.Struct, frozen=True):
    """How many of the input tokens were found in the prefix cache. What is written to it costs nothing."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """How many of the output tokens were reasoning."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True):
    """Tokens billed: committed tokens up to and including the end token, never noisy ones."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int

    @classmethod
    def of(cls, answer: Answer) -> ResponseUsage:
        """The usage of ``answer``."""
        completion = answer.completion
        return cls(
            input_tokens=completion.prompt_tokens,
            input_tokens_details=InputTokensDetails(completion.stats.cached),
            output_tokens=completion.completion_tokens,
            output_tokens_details=OutputTokensDetails(answer.reasoning_tokens),
            total_tokens=completion.prompt_tokens + completion.completion_tokens,
        )


class InputTokens(msgspec.Struct, frozen=True):
    """What a request's input comes to."""

    input_tokens: int
    object: Literal["response.input_tokens"] = "response.input_tokens"


class ResponseError(msgspec.Struct, frozen=True):
    """Why there is no answer. The codes are OpenAI's few; the ``error`` event has the catalogue's."""

    code: Literal["server_error", "rate_limit_exceeded"]
    message: str


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why the answer is cut short."""

    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ReasoningEcho(msgspec.Struct, frozen=True):
    """The request's ``reasoning``."""

    effort: str | None = None
    summary: str | None = None


class TextEcho(msgspec.Struct, frozen=True):
    """The request's ``text``."""

    format: dict[str, Any]


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The response body: the answer, and most of what was asked for. ``store``: whether it is kept."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Literal["in_progress", "completed", "incomplete", "failed"] = "in_progress"
    background: bool = False
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningEcho
    safety_identifier: str | None
    service_tier: Literal["default"] = "default"
    store: bool
    temperature: float | None
    text: TextEcho
    tool_choice: str | ChoiceEcho
    tools: list[ToolEcho]
    top_logprobs: int
    top_p: float | None
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | UnsetType = UNSET
    user: str | UnsetType = UNSET
    unmask: GenerationReport | UnsetType = UNSET


def begin(head: Head, body: ResponseRequest) -> Response:
    """The response to ``body``, before there is any answer."""
    reasoning = body.reasoning or Reasoning()
    return Response(
        id=head.id,
        created_at=head.created,
        model=head.model,
        instructions=body.instructions,
        max_output_tokens=body.max_output_tokens,
        metadata=body.metadata or {},
        parallel_tool_calls=body.parallel_tool_calls is not False,
        previous_response_id=body.previous_response_id,
        prompt_cache_key=body.prompt_cache_key,
        reasoning=ReasoningEcho(reasoning.effort, reasoning.summary),
        safety_identifier=body.safety_identifier,
        store=body.store is not False,
        temperature=body.temperature,
        text=TextEcho(echo_format(body.text)),
        tool_choice=echo_choice(body.tool_choice),
        tools=echo_tools(body.tools),
        top_logprobs=body.top_logprobs or 0,
        top_p=body.top_p,
        user=UNSET if body.user is None else body.user,
    )


def finish(response: Response, answer: Answer, output: Sequence[OutputItem]) -> Response:
    """``response`` with its answer."""
    whole = answer.finish != "length"
    completion = answer.completion
    return replace(
        response,
        status="completed" if whole else "incomplete",
        completed_at=response.created_at + round(completion.stats.total) if whole else None,
        incomplete_details=None if whole else IncompleteDetails(),
        output=list(output),
        usage=ResponseUsage.of(answer),
        unmask=GenerationReport.of(completion),
    )


def fail(response: Response, problem: Problem, output: Sequence[OutputItem]) -> Response:
    """``response`` that ``problem`` has ended. It is not kept."""
    code: Literal["server_error", "rate_limit_exceeded"] = "server_error"
    if problem.status == 429:
        code = "rate_limit_exceeded"
    error = ResponseError(code, problem.message)
    return replace(response, status="failed", error=error, output=list(output), store=False)

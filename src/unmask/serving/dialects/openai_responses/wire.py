"""The schema of POST /v1/responses: requests to answer and to count, and the queries of what is kept."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from unmask.serving.dialects.openai_common.wire import Labels
from unmask.serving.dialects.openai_responses.input_wire import Input
from unmask.serving.dialects.openai_responses.text_format import Text
from unmask.serving.dialects.openai_responses.tools import Choice, Tools
from unmask.serving.extension import UnmaskOptions
from unmask.serving.model_request import ModelRequest
from unmask.serving.sampling_fields import SamplingFields
from unmask.serving.stop import Stop
from unmask.serving.wire import Only, WireModel

LOGPROBS = "message.output_text.logprobs"

_Included = Annotated[str, Only(LOGPROBS)]


class Reasoning(WireModel):
    """How much to think. ``summary``: "auto" leaves it to the server, which writes none and tells all."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Annotated[Any, Only("auto")] = None
    generate_summary: Annotated[Any, Only("auto")] = None
    mode: Annotated[Any, Only("standard")] = None
    context: Annotated[Any, Only("auto")] = None


class StreamOptions(WireModel):
    """``stream_options``: nothing is obfuscated."""

    include_obfuscation: Annotated[Any, Only(False)] = None


class CountRequest(ModelRequest):
    """A body to be counted: what the prompt is made of. ``None`` is "not said"; ``Only`` fields pass with harmless
    values.
    """

    foreign_names: ClassVar[dict[str, str]] = ModelRequest.foreign_names | {
        "messages": "input",
        "system": "instructions",
        "response_format": "text.format",
        "format": "text.format",
        "structured_outputs": "text.format",
        "reasoning_effort": "reasoning.effort",
        "thinking": "reasoning.effort",
        "enable_thinking": "reasoning.effort",
        "chat_template_kwargs": "reasoning.effort",
        "functions": "tools",
    }

    input: Input
    instructions: str | None = None
    previous_response_id: Annotated[str, Field(max_length=128)] | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    tools: Tools | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None

    conversation: Annotated[Any, Only()] = None
    truncation: Annotated[Any, Only("disabled")] = None


class ResponseRequest(CountRequest, SamplingFields):
    """A body to be answered."""

    foreign_names: ClassVar[dict[str, str]] = CountRequest.foreign_names | {
        "max_tokens": "max_output_tokens",
        "max_completion_tokens": "max_output_tokens",
        "max_new_tokens": "max_output_tokens",
        "num_predict": "max_output_tokens",
        "stop_sequences": "stop",
        "repeat_penalty": "repetition_penalty",
        "logprobs": "include",
    }

    store: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: Stop | None = None
    include: Annotated[list[_Included], Field(max_length=16, fail_fast=True)] | None = None
    top_logprobs: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    metadata: Labels | None = None  # without effect, as are the next three
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    user: str | None = None  # but that users of one key share the engine fairly
    unmask: UnmaskOptions | None = None

    background: Annotated[Any, Only(False)] = None
    context_management: Annotated[Any, Only()] = None
    max_tool_calls: Annotated[Any, Only()] = None
    moderation: Annotated[Any, Only()] = None
    prompt: Annotated[Any, Only()] = None
    prompt_cache_options: Annotated[Any, Only()] = None
    prompt_cache_retention: Annotated[Any, Only()] = None
    service_tier: Annotated[Any, Only("auto", "default")] = None


class RetrieveQuery(WireModel):
    """The query of a retrieval: a response is told as it was made, and at once."""

    model_config = ConfigDict(strict=False)

    stream: Annotated[Any, Only("false")] = None
    include: Annotated[Any, Only()] = None
    starting_after: Annotated[Any, Only()] = None
    include_obfuscation: Annotated[Any, Only("false")] = None


class ItemsQuery(WireModel):
    """Which of the input's items are asked for: those that come ``after`` one."""

    model_config = ConfigDict(strict=False)

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: Annotated[str, Field(max_length=128)] | None = None
    include: Annotated[Any, Only()] = None

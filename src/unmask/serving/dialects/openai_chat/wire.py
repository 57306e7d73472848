"""The schema of POST /v1/chat/completions: request, response and chunk."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from unmask.events import WireFinish
from unmask.serving.dialects.openai_chat.tools import Choice as ToolsChoice
from unmask.serving.dialects.openai_chat.tools import Tools
from unmask.serving.dialects.openai_common.messages import Messages
from unmask.serving.dialects.openai_common.template_variables import TemplateVariables
from unmask.serving.dialects.openai_common.wire import Labels, OpenAIRequest, Usage
from unmask.serving.extension import GenerationReport
from unmask.serving.logprobs import Logprob
from unmask.serving.wire import Only

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


class ChatRequest(OpenAIRequest):
    """The request body. ``max_completion_tokens`` is another name of ``max_tokens``."""

    foreign_names: ClassVar[dict[str, str]] = OpenAIRequest.foreign_names | {
        "max_output_tokens": "max_completion_tokens",
        "input": "messages",
        "prompt": "messages",
        "system": "messages",
        "instructions": "messages",
        "reasoning": "reasoning_effort",
        "thinking": "reasoning_effort",
        "think": "reasoning_effort",
        "enable_thinking": "reasoning_effort",
    }

    messages: Messages
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    metadata: Labels | None = None  # without effect, as user is
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    tools: Tools | None = None
    tool_choice: ToolsChoice | None = None
    parallel_tool_calls: bool | None = None
    diffusing: bool | None = None  # snapshots of the whole text, as Mercury streams them
    reasoning_effort: Effort | None = None
    chat_template_kwargs: TemplateVariables | None = None

    functions: Annotated[Any, Only([])] = None
    function_call: Annotated[Any, Only("none", "auto")] = None
    modalities: Annotated[Any, Only(["text"])] = None
    audio: Annotated[Any, Only()] = None
    moderation: Annotated[Any, Only()] = None
    prediction: Annotated[Any, Only()] = None
    prompt_cache_options: Annotated[Any, Only()] = None
    prompt_cache_retention: Annotated[Any, Only()] = None
    service_tier: Annotated[Any, Only("auto", "default")] = None
    store: Annotated[Any, Only(False)] = None
    verbosity: Annotated[Any, Only("medium")] = None
    web_search_options: Annotated[Any, Only()] = None


class ChatLogprobs(msgspec.Struct, frozen=True):
    """``choices[].logprobs``."""

    content: list[Logprob]
    refusal: None = None


class CalledFunction(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is called; in a chunk, what it adds to that. ``arguments`` is JSON text."""

    arguments: str
    name: str | UnsetType = UNSET


class CalledTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call. In a chunk it has an ``index``, and only the call's first chunk has ``id``, ``type`` and name."""

    function: CalledFunction
    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    index: int | UnsetType = UNSET


class AnswerMessage(msgspec.Struct, frozen=True):
    """The assistant's message; ``content`` is null if there are calls and nothing else."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[CalledTool] | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True):
    """One of the answers. ``unmask`` is here if the request asked for several."""

    index: int
    message: AnswerMessage
    finish_reason: WireFinish
    logprobs: ChatLogprobs | None = None
    unmask: GenerationReport | UnsetType = UNSET


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The response body. ``unmask`` is here if the request asked for one answer."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    unmask: GenerationReport | UnsetType = UNSET


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk adds to the message."""

    role: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[CalledTool] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True):
    """An answer's part of a chunk; ``finish_reason`` is null until its last one."""

    index: int
    delta: Delta
    finish_reason: WireFinish | None = None
    logprobs: ChatLogprobs | None = None

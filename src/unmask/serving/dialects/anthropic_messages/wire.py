"""The schema of POST /v1/messages and /v1/messages/count_tokens: what requests may say."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from unmask.serving.dialects.anthropic_messages.blocks import CacheControl, Messages, Texts
from unmask.serving.dialects.anthropic_messages.tools import Choice, Tools
from unmask.serving.extension import UnmaskOptions
from unmask.serving.model_request import ModelRequest
from unmask.serving.stop import StopStrings
from unmask.serving.wire import Only, WireModel


class ThinkingConfig(WireModel):
    """Whether to reason first; ``adaptive`` leaves it to the model. ``budget_tokens`` bounds nothing by itself."""

    type: Annotated[str, Only("enabled", "disabled", "adaptive")]
    budget_tokens: Annotated[int, Field(ge=1)] | None = None
    display: Annotated[Any, Only("summarized")] = None


class JsonFormat(WireModel):
    """JSON that fits a schema."""

    type: Literal["json_schema"]
    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class OutputConfig(WireModel):
    """What the answer must look like, and how much effort to take."""

    format: JsonFormat | None = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Metadata(WireModel):
    """Whose request it is."""

    user_id: str | None = None


class ConversationRequest(ModelRequest):
    """Fields of both endpoints: what makes the prompt. ``None`` is "not said"."""

    foreign_names: ClassVar[dict[str, str]] = ModelRequest.foreign_names | {
        "input": "messages",
        "prompt": "messages",
        "instructions": "system",
        "response_format": "output_config.format",
        "structured_outputs": "output_config.format",
        "reasoning_effort": "output_config.effort",
        "reasoning": "thinking",
        "enable_thinking": "thinking",
        "chat_template_kwargs": "thinking",
        "functions": "tools",
    }

    messages: Messages
    system: Texts | None = None
    tools: Tools | None = None
    tool_choice: Choice | None = None
    thinking: ThinkingConfig | None = None
    output_config: OutputConfig | None = None
    output_format: JsonFormat | None = None  # an older name of output_config.format
    cache_control: CacheControl | None = None

    billing_policy: Annotated[Any, Only()] = None
    compaction: Annotated[Any, Only()] = None
    context_management: Annotated[Any, Only()] = None
    mcp_servers: Annotated[Any, Only([])] = None
    speed: Annotated[Any, Only("standard")] = None
    user_profile_id: Annotated[Any, Only()] = None


class CountRequest(ConversationRequest):
    """The body of a request to count a prompt's tokens."""


class MessagesRequest(ConversationRequest):
    """The body of a request for an answer. ``Only`` fields pass with harmless values."""

    foreign_names: ClassVar[dict[str, str]] = ConversationRequest.foreign_names | {
        "max_completion_tokens": "max_tokens",
        "max_output_tokens": "max_tokens",
        "max_new_tokens": "max_tokens",
        "max_tokens_to_sample": "max_tokens",
        "num_predict": "max_tokens",
        "stop": "stop_sequences",
        "user": "metadata.user_id",
    }

    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: StopStrings | None = None
    stream: bool | None = None
    metadata: Metadata | None = None
    unmask: UnmaskOptions | None = None

    container: Annotated[Any, Only()] = None
    diagnostics: Annotated[Any, Only()] = None
    fallback_credit_token: Annotated[Any, Only()] = None
    fallbacks: Annotated[Any, Only([])] = None
    inference_geo: Annotated[Any, Only()] = None
    service_tier: Annotated[Any, Only("auto", "standard_only")] = None
    thread: Annotated[Any, Only()] = None

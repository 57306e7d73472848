"""The schemas of POST /api/chat, /api/generate and /api/show: what requests may say."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from unmask.answers.tools import MAX_TOOLS
from unmask.serving.dialects.ollama.options import Options
from unmask.serving.model_request import ModelRequest
from unmask.serving.wire import Only, WireModel

_LEVELS = ("low", "medium", "high", "max")


def _kind(wanted: Any) -> str:
    return "<schema>" if isinstance(wanted, dict) else "<name>"


_Name = Annotated[Literal["", "json"], Tag("<name>")]

Format = Annotated[_Name | Annotated[dict[str, Any], Tag("<schema>")], Discriminator(_kind)]


class AnswerRequest(ModelRequest):
    """Fields of both endpoints. ``None`` is "not said"; ``Only`` fields pass with values that ask for nothing."""

    foreign_names: ClassVar[dict[str, str]] = ModelRequest.foreign_names | {
        "response_format": "format",
        "structured_outputs": "format",
        "json_schema": "format",
        "guided_json": "format",
        "thinking": "think",
        "reasoning": "think",
        "reasoning_effort": "think",
        "enable_thinking": "think",
        "chat_template_kwargs": "think",
    }

    stream: bool | None = None
    format: Format | None = None
    options: Options | None = None
    think: Annotated[Any, Only(True, False, *_LEVELS)] = None
    logprobs: bool | None = None
    top_logprobs: int | None = None

    shift: Annotated[Any, Only(False)] = None
    truncate: Annotated[Any, Only(False)] = None


class CalledFunction(WireModel):
    """What an earlier answer called."""

    name: str
    arguments: Annotated[dict[str, Any], Field(default_factory=dict)]
    index: int | None = None
    description: str | None = None


class CalledTool(WireModel):
    """A call in an earlier answer."""

    function: CalledFunction
    id: str = ""
    type: Literal["function"] = "function"


class Message(WireModel):
    """A message of the conversation. What an earlier answer of ours holds may be sent back as it came."""

    foreign_names: ClassVar[dict[str, str]] = {
        "reasoning_content": "thinking",
        "reasoning": "thinking",
        "name": "tool_name",
    }

    role: Annotated[str, Only("system", "user", "assistant", "tool")]
    content: str | None = None
    thinking: str | None = None
    tool_calls: Annotated[list[CalledTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    images: Annotated[Any, Only([])] = None


class Function(WireModel):
    """A function that the model may call; ``parameters`` is a JSON schema, none for no arguments."""

    foreign_names: ClassVar[dict[str, str]] = {"input_schema": "parameters"}

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(WireModel):
    """Functions are the only tools there are."""

    foreign_names: ClassVar[dict[str, str]] = {
        "name": "function.name",
        "description": "function.description",
        "input_schema": "function.parameters",
    }

    type: Annotated[str | None, Only("function")] = None
    function: Function


# One bad message is enough to refuse all; and a context holds fewer than this many.
Messages = Annotated[list[Message], Field(max_length=4096, fail_fast=True)]


class ChatRequest(AnswerRequest):
    """The body of /api/chat. Without messages it asks whether the model is there."""

    foreign_names: ClassVar[dict[str, str]] = AnswerRequest.foreign_names | {
        "prompt": "messages",
        "input": "messages",
        "system": "messages",
        "functions": "tools",
    }

    messages: Messages | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS, fail_fast=True)] | None = None


class GenerateRequest(AnswerRequest):
    """The body of /api/generate. Without a prompt it asks whether the model is there."""

    foreign_names: ClassVar[dict[str, str]] = AnswerRequest.foreign_names | {
        "messages": "prompt",
        "input": "prompt",
        "instructions": "system",
    }

    prompt: str | None = None
    system: str | None = None
    raw: bool | None = None

    context: Annotated[Any, Only([])] = None
    height: Annotated[Any, Only()] = None
    images: Annotated[Any, Only([])] = None
    steps: Annotated[Any, Only()] = None
    suffix: Annotated[Any, Only("")] = None
    template: Annotated[Any, Only("")] = None
    width: Annotated[Any, Only()] = None


class ShowRequest(WireModel):
    """The body of /api/show; ``name`` is an older name of ``model``, and ``verbose`` would add nothing."""

    model: str | None = None
    name: str | None = None
    verbose: bool | None = None
    system: Annotated[Any, Only("")] = None
    options: Annotated[Any, Only({})] = None
    template: Annotated[Any, Only("")] = None

"""Tools and the choice among them, as messages requests have them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from unmask.answers.tools import MAX_TOOLS, ChoiceMode, Tool, ToolChoice
from unmask.errors import InvalidValueError
from unmask.serving.dialects.anthropic_messages.blocks import CacheControl
from unmask.serving.wire import Only, WireModel


class CustomTool(WireModel):
    """A tool that the client runs; there are no others. ``eager_input_streaming``: its input may be sent as it comes,
    before it is known to be JSON.
    """

    foreign_names: ClassVar[dict[str, str]] = {"parameters": "input_schema", "function": "name"}

    type: Annotated[str | None, Only("custom")] = None
    name: str
    description: str | None = None
    input_schema: dict[str, Any]
    strict: bool | None = None
    cache_control: CacheControl | None = None
    eager_input_streaming: bool | None = None
    allowed_callers: Annotated[Any, Only(["direct"])] = None
    defer_loading: Annotated[Any, Only(False)] = None
    input_examples: Annotated[Any, Only([])] = None


class Choice(WireModel):
    """Whether the model may, must, or must not use a tool; ``name``, if it must use one: which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


_MODES: dict[str, ChoiceMode] = {"auto": "auto", "any": "required", "tool": "named", "none": "none"}

Tools = Annotated[list[CustomTool], Field(max_length=MAX_TOOLS, fail_fast=True)]


def parse_tools(tools: Tools | None) -> list[Tool]:
    """The tools that a request offers."""
    return [
        Tool(tool.name, tool.description or "", tool.input_schema, bool(tool.strict), schema_name="input_schema")
        for tool in tools or ()
    ]


def parse_choice(choice: Choice | None) -> ToolChoice:
    """Whether the answer may, or must, use a tool. Raises ``InvalidValueError`` for a name without use, or no name."""
    if choice is None:
        return ToolChoice()
    if (choice.type == "tool") != (choice.name is not None):
        told = "needs a" if choice.name is None else "takes no"
        raise InvalidValueError(f"'tool_choice' of type '{choice.type}' {told} 'name'.", param="tool_choice.name")
    return ToolChoice(_MODES[choice.type], choice.name)


def eager_tools(tools: Tools | None, choice: ToolChoice, *, default: bool) -> set[str]:
    """The names of the tools whose input is streamed as it comes: those that say so, or do not, if that is the
    ``default``; all if a call is forced, since then it is JSON, come what may.
    """
    eager = {tool.name: tool.eager_input_streaming for tool in tools or ()}
    return {name for name, own in eager.items() if choice.forced or (default if own is None else own)}

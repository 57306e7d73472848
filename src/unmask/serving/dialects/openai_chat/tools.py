"""Tools and the choice among them, as chat requests have them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import InvalidValueError
from unmask.serving.wire import WireModel


class Function(WireModel):
    """A function that the model may call; ``parameters`` is a JSON schema, none for no arguments."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class FunctionTool(WireModel):
    """Functions are the only tools there are."""

    type: Literal["function"]
    function: Function


class NamedFunction(WireModel):
    """Which function must be called."""

    name: str


class NamedChoice(WireModel):
    """The choice of one function."""

    type: Literal["function"]
    function: NamedFunction


def _kind(choice: Any) -> str:
    return "<mode>" if isinstance(choice, str) else "<named>"


_Mode = Annotated[Literal["none", "auto", "required"], Tag("<mode>")]

Tools = Annotated[list[FunctionTool], Field(max_length=128, fail_fast=True)]
Choice = Annotated[_Mode | Annotated[NamedChoice, Tag("<named>")], Discriminator(_kind)]


def parse_tools(tools: Tools | None) -> list[Tool]:
    """The tools that a request offers."""
    functions = [tool.function for tool in tools or ()]
    return [
        Tool(
            name=function.name,
            description=function.description or "",
            parameters=function.parameters or {"type": "object", "properties": {}},
            strict=bool(function.strict),
        )
        for function in functions
    ]


def parse_choice(choice: Choice | None, tools: list[Tool]) -> ToolChoice:
    """Whether to call one of ``tools``. Raises ``InvalidValueError`` if there is nothing to choose from."""
    if choice is None or choice == "auto":
        return ToolChoice()
    if choice == "none":
        return ToolChoice("none")
    if not tools:
        raise InvalidValueError("'tool_choice' needs 'tools'.", param="tool_choice")
    if isinstance(choice, str):
        return ToolChoice("required")
    name = choice.function.name
    if name not in {tool.name for tool in tools}:
        raise InvalidValueError(
            f"'tool_choice' names {name[:100]!r}, which is none of the tools.", param="tool_choice.function.name"
        )
    return ToolChoice("required", name)

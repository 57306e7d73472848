"""Tools and the choice among them, as chat requests have them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from unmask.answers.tools import MAX_TOOLS, Tool, ToolChoice
from unmask.serving.wire import WireModel


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

Tools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS, fail_fast=True)]
Choice = Annotated[_Mode | Annotated[NamedChoice, Tag("<named>")], Discriminator(_kind)]


def parse_tools(tools: Tools | None) -> list[Tool]:
    """The tools that a request offers."""
    functions = [tool.function for tool in tools or ()]
    return [
        Tool(
            function.name,
            function.description or "",
            function.parameters,
            bool(function.strict),
            path=f"tools[{number}].function",
        )
        for number, function in enumerate(functions)
    ]


def parse_choice(choice: Choice | None) -> ToolChoice:
    """Whether the answer may, or must, be a call; ``auto`` if it is not said."""
    if isinstance(choice, NamedChoice):
        return ToolChoice("named", choice.function.name)
    return ToolChoice(choice or "auto")

"""Tools and the choice among them, as this endpoint has them: flat, not in an object ``function``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import Discriminator, Field, Tag

from unmask.answers.tools import MAX_TOOLS, Tool, ToolChoice
from unmask.serving.wire import Only, WireModel


class FunctionTool(WireModel):
    """A function that the model may call; ``parameters`` is a JSON schema, none for no arguments."""

    foreign_names: ClassVar[dict[str, str]] = {"function": "name", "input_schema": "parameters"}

    type: Annotated[str, Only("function")]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    output_schema: Annotated[Any, Only()] = None
    defer_loading: Annotated[Any, Only(False)] = None
    allowed_callers: Annotated[Any, Only(["direct"])] = None


class NamedChoice(WireModel):
    """The choice of one function."""

    type: Annotated[str, Only("function")]
    name: str


def _kind(choice: Any) -> str:
    return "<mode>" if isinstance(choice, str) else "<named>"


_Mode = Annotated[Literal["none", "auto", "required"], Tag("<mode>")]

Tools = Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS, fail_fast=True)]
Choice = Annotated[_Mode | Annotated[NamedChoice, Tag("<named>")], Discriminator(_kind)]


class ToolEcho(msgspec.Struct, frozen=True):
    """A tool as the response repeats it."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None
    strict: bool | None
    type: Literal["function"] = "function"


class ChoiceEcho(msgspec.Struct, frozen=True):
    """The choice of one function as the response repeats it."""

    name: str
    type: Literal["function"] = "function"


def parse_tools(tools: Tools | None) -> list[Tool]:
    """The tools that a request offers."""
    return [Tool(tool.name, tool.description or "", tool.parameters, bool(tool.strict)) for tool in tools or ()]


def parse_choice(choice: Choice | None) -> ToolChoice:
    """Whether the answer may, or must, be a call; ``auto`` if it is not said."""
    if isinstance(choice, NamedChoice):
        return ToolChoice("named", choice.name)
    return ToolChoice(choice or "auto")


def echo_tools(tools: Tools | None) -> list[ToolEcho]:
    """``tools`` for the response."""
    return [ToolEcho(tool.name, tool.description, tool.parameters, tool.strict) for tool in tools or ()]


def echo_choice(choice: Choice | None) -> str | ChoiceEcho:
    """``choice`` for the response."""
    return ChoiceEcho(choice.name) if isinstance(choice, NamedChoice) else choice or "auto"

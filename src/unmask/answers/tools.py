"""What a request offers to be called, and what it demands; in no dialect's words."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from unmask.errors import InvalidValueError
from unmask.shown import shown

MAX_TOOLS = 128
MAX_BYTES = 256 * 1024  # of all tools together, as JSON: a prompt holds them all
NAME = re.compile("[a-zA-Z0-9_-]{1,64}")

Schema = dict[str, Any]
ChoiceMode = Literal["auto", "none", "required", "named"]

# An object's keywords whose values are schemas by name; and those whose values are no schemas, whatever they look like.
_BY_NAME = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_VALUES = frozenset(("const", "enum", "default", "examples"))


@dataclass(frozen=True, slots=True)
class Tool:
    """A function the model may ask for. ``parameters``: the JSON schema of its arguments; ``None``: it has none.

    ``strict``: calls of it must fit the schema. ``path``: where the request has it, for errors; else its place in the
    list. ``schema_name``: what the request calls ``parameters``.
    """

    name: str
    description: str = ""
    parameters: Schema | None = field(default=None, hash=False)
    strict: bool = False
    path: str = ""
    schema_name: str = "parameters"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the answer may, must not, or must be a call; of the tool ``name``, if ``mode`` is "named"."""

    mode: ChoiceMode = "auto"
    name: str | None = None

    @property
    def forced(self) -> bool:
        """Whether the answer is a call and nothing else."""
        return self.mode in ("required", "named")


def check_tools(tools: Sequence[Tool], choice: ToolChoice) -> None:
    """Raises ``InvalidValueError`` naming what is wrong with a request's ``tools``, or with its ``choice`` of them."""
    if len(tools) > MAX_TOOLS:
        raise InvalidValueError(
            f"'tools' has {len(tools)} entries; at most {MAX_TOOLS} are allowed.", hint="Offer fewer.", param="tools"
        )
    seen: set[str] = set()
    size = 0
    for number, tool in enumerate(tools):
        at = tool.path or f"tools[{number}]"
        _check_tool(tool, at, seen)
        seen.add(tool.name)
        size += _size(tool, at)
        if size > MAX_BYTES:
            raise InvalidValueError(
                f"'tools' hold more than {MAX_BYTES} bytes of descriptions and schemas.",
                hint="Offer fewer, or shorten them.",
                param="tools",
            )
    if choice.forced and not tools:
        raise InvalidValueError("'tool_choice' demands a call, but there are no 'tools'.", param="tool_choice")
    if choice.mode == "named" and choice.name not in seen:
        raise InvalidValueError(f"'tool_choice' names {shown(choice.name)}, which is no tool.", param="tool_choice")


def _check_tool(tool: Tool, at: str, seen: set[str]) -> None:
    if NAME.fullmatch(tool.name) is None:
        raise InvalidValueError(
            f"'{at}.name' is {shown(tool.name)}.",
            hint="A tool's name has 1 to 64 letters, digits, '_' and '-'.",
            param=f"{at}.name",
        )
    if tool.name in seen:
        raise InvalidValueError(f"'{at}.name' is {shown(tool.name)}, as is another tool's.", param=f"{at}.name")
    kind = (tool.parameters or {}).get("type", "object")
    if kind != "object":
        raise InvalidValueError(
            f"'{at}.{tool.schema_name}' must be the schema of an object; its type is {shown(kind)}.",
            hint='Arguments are named: {"type": "object", "properties": {...}}.',
            param=f"{at}.{tool.schema_name}",
        )


def _size(tool: Tool, at: str) -> int:
    try:
        return len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        at = f"{at}.{tool.schema_name}"
        raise InvalidValueError(f"'{at}' is no JSON.", param=at) from None


def forced_schema(tools: Sequence[Tool], choice: ToolChoice) -> Schema:
    """The JSON schema of an answer that is one call, as ``choice`` demands: ``{"name": ..., "arguments": {...}}``.

    What ``tools`` refer to within their own schemas is found under ``$defs``, by the tool's name.
    """
    meant = [tool for tool in tools if choice.name in (None, tool.name)]
    calls = [call_schema(tool.name, {"$ref": f"#/$defs/{tool.name}"}) for tool in meant]
    return {
        "$defs": {tool.name: arguments_schema(tool) for tool in meant},
        **(calls[0] if len(calls) == 1 else {"anyOf": calls}),
    }


def call_schema(name: str, arguments: Schema) -> Schema:
    """The schema of a call of the tool ``name``."""
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def arguments_schema(tool: Tool) -> Schema:
    """The schema of the arguments of ``tool`` as it stands at ``#/$defs/<its name>`` of a larger one."""
    if not tool.parameters:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    moved = _moved(tool.parameters, f"#/$defs/{tool.name}")
    return moved if "$ref" in moved or "anyOf" in moved else {"type": "object", **moved}


def _moved(schema: Any, to: str) -> Any:
    """``schema`` with references to its own parts as they are where its root is ``to``."""
    if isinstance(schema, list):
        return [_moved(one, to) for one in schema]
    if not isinstance(schema, dict):
        return schema
    moved: Schema = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and value.startswith("#"):
            moved[key] = to + value[1:]
        elif key in _BY_NAME and isinstance(value, dict):
            moved[key] = {name: _moved(one, to) for name, one in value.items()}
        else:
            moved[key] = value if key in _VALUES else _moved(value, to)
    return moved

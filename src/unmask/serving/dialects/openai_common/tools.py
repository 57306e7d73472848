"""The choice among tools, however a dialect writes it."""

from __future__ import annotations

from collections.abc import Sequence

from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import InvalidValueError


def settle_choice(mode: str | None, name: str | None, tools: Sequence[Tool], name_field: str) -> ToolChoice:
    """Whether to call one of ``tools``: as ``mode`` says, or the one called ``name``, which came in ``name_field``.

    Raises ``InvalidValueError`` if there is nothing to choose from.
    """
    if name is None:
        if mode in (None, "auto"):
            return ToolChoice()
        if mode == "none":
            return ToolChoice("none")
    if not tools:
        raise InvalidValueError("'tool_choice' needs 'tools'.", param="tool_choice")
    if name is not None and name not in {tool.name for tool in tools}:
        raise InvalidValueError(f"'tool_choice' names {name[:100]!r}, which is none of the tools.", param=name_field)
    return ToolChoice("required", name)

"""The tools that a request offers, in no dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. ``parameters`` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the answer may, must, or must not be a call; ``name``: of which tool, if that is fixed too."""

    mode: Literal["auto", "none", "required"] = "auto"
    name: str | None = None


def forced_schema(tools: Sequence[Tool], choice: ToolChoice) -> dict[str, Any]:
    return {}

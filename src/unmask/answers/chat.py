"""A conversation to go on with, in no dialect and for any engine: what all chat endpoints make of their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unmask.answers.tools import Tool, ToolChoice
from unmask.errors import UnsupportedValueError
from unmask.params import GenerationParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What is asked for: a conversation, and how to go on with it.

    ``messages`` have the shape that chat templates take (``ChatTemplate.encode``). ``thinking``: whether the model
    shall reason before it answers; None leaves it to the template. ``effort``: how much, for templates that know of it.
    ``one_call``: no more than one call an answer. ``copies``: how many answers. ``prefill``: the text with which the
    answer begins; what comes goes on from there.
    """

    messages: list[dict[str, Any]]
    params: GenerationParams
    tools: Sequence[Tool] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    one_call: bool = False
    thinking: bool | None = None
    effort: str | None = None
    copies: int = 1
    prefill: str = ""

    @property
    def offered(self) -> Sequence[Tool]:
        """The tools that the answer may call."""
        return () if self.choice.mode == "none" else self.tools


def split_prefill(turns: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """``turns`` without a last one of the assistant's, and its text, with which the answer begins.

    Raises ``UnsupportedValueError`` if it holds anything else, which cannot be gone on with.
    """
    if not turns or turns[-1]["role"] != "assistant":
        return turns, ""
    *before, last = turns
    if last.keys() != {"role", "content"}:
        raise UnsupportedValueError(
            "'messages' ends with a turn of the assistant's that holds more than text.",
            hint="Only text can be gone on with; end with a message of the user's.",
            param="messages",
        )
    return before, last["content"]


def template_call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A call in an earlier answer, as chat templates take it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

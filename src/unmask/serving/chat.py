"""A conversation to go on with, in no dialect: what all chat endpoints make of their bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from unmask.answers.reading import Reading
from unmask.answers.tools import Tool, ToolChoice, check_tools, forced_schema
from unmask.errors import InvalidValueError, UnsupportedValueError
from unmask.params import CONSTRAINTS, GenerationParams, ModelInfo
from unmask.serving.admission import Admission
from unmask.serving.served_model import ServedModel

NO_PARAMETERS = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """What is asked for. ``messages`` have the shape that chat templates take (``ChatTemplate.encode``).

    ``thinking``: whether the model shall reason before it answers; None leaves it to the template. ``effort``: how
    much, for templates that know of it. ``one_call``: no more than one call an answer. ``copies``: how many answers.
    """

    messages: list[dict[str, Any]]
    params: GenerationParams
    tools: Sequence[Tool] = ()
    choice: ToolChoice = field(default_factory=ToolChoice)
    one_call: bool = False
    thinking: bool | None = None
    effort: str | None = None
    copies: int = 1

    @property
    def offered(self) -> Sequence[Tool]:
        """The tools that the answer may call."""
        return () if self.choice.mode == "none" else self.tools


async def encode_chat(model: ServedModel, chat: ChatRequest) -> list[int]:
    """Prompt ids. Raises ``InvalidValueError`` for more copies than fit at once, ``UnsupportedValueError`` for
    ``thinking`` that is not the model's to choose, and what ``ChatTemplate.encode`` raises.
    """
    model.check_count(chat.copies, "n")
    check_tools(chat.tools, chat.choice)
    variables: dict[str, Any] = {}
    if chat.thinking is not None:
        _check_thinking(model, chat.thinking)
        variables["enable_thinking"] = chat.thinking
    if chat.effort is not None:
        variables["reasoning_effort"] = chat.effort
    return await model.encode_chat(chat.messages, [_told(tool) for tool in chat.offered], **variables)


async def admit_chat(
    model: ServedModel, chat: ChatRequest, prompt: list[int], variant: ModelInfo, tenant: str
) -> Admission:
    """``chat``, checked, with its ``prompt`` from ``encode_chat``. Raises what ``ServedModel.admit`` raises."""
    params = chat.params
    if chat.choice.forced:
        given = next((name for name in CONSTRAINTS if getattr(params, name) is not None), None)
        if given is not None:
            raise InvalidValueError(
                f"'tool_choice' and '{given}' both say what the answer looks like.",
                hint="Give one of them.",
                param="tool_choice",
            )
        params = replace(params, json_schema=forced_schema(chat.tools, chat.choice))
    reading = Reading(
        syntax=model.syntax,
        tools=bool(chat.offered),
        one_call=chat.one_call,
        opened=model.opens_reasoning(prompt),
        forced=chat.choice.forced,
    )
    return await model.admit([prompt], params, variant, tenant, reading=reading, copies=chat.copies)


def _check_thinking(model: ServedModel, thinking: bool) -> None:
    """A switch that the template does not have must not seem to be thrown."""
    if "enable_thinking" not in model.template.variables and thinking != (model.syntax.reasoning is not None):
        raise UnsupportedValueError(
            "This model's chat template always lets it reason before it answers."
            if model.syntax.reasoning is not None
            else "This model does not reason before it answers.",
            hint="Leave it out.",
            param="thinking",
        )


def _told(tool: Tool) -> dict[str, Any]:
    """``tool`` as chat templates take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters or NO_PARAMETERS}
    return {"type": "function", "function": function}

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
    ``prefill``: the text with which the answer begins; what comes goes on from there.
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


async def encode_chat(model: ServedModel, chat: ChatRequest) -> list[int]:
    """Prompt ids. Raises ``InvalidValueError`` for more copies than fit at once, ``UnsupportedValueError`` for
    ``thinking`` or ``effort`` that is not the model's to choose, or a ``prefill`` that would be reasoning, and what
    ``ChatTemplate.encode`` raises.
    """
    model.check_count(chat.copies, "n")
    check_tools(chat.tools, chat.choice)
    variables: dict[str, Any] = {}
    if chat.thinking is not None:
        _check_thinking(model, chat.thinking)
        variables["enable_thinking"] = chat.thinking
    if chat.effort is not None:
        _check_effort(model, chat)
        variables["reasoning_effort"] = chat.effort
    prompt = await model.encode_chat(chat.messages, [_told(tool) for tool in chat.offered], **variables)
    return [*prompt, *await _prefilled(model, prompt, chat.prefill)] if chat.prefill else prompt


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


def _check_effort(model: ServedModel, chat: ChatRequest) -> None:
    """Where it does not go along with ``thinking``, it must mean something to the template."""
    if chat.thinking is None and "reasoning_effort" not in model.template.variables:
        raise UnsupportedValueError("This model's chat template knows no effort.", hint="Leave it out.", param="effort")


async def _prefilled(model: ServedModel, prompt: list[int], text: str) -> list[int]:
    """The ids of ``text``, with which the answer to ``prompt`` begins."""
    if model.opens_reasoning(prompt):
        raise UnsupportedValueError(
            "This model reasons before it answers: its answer cannot be begun for it.",
            hint="End with a message of the user's.",
            param="messages",
        )
    (ids,) = await model.encode_texts([text], add_begin=False)
    return ids


def _told(tool: Tool) -> dict[str, Any]:
    """``tool`` as chat templates take it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters or NO_PARAMETERS}
    return {"type": "function", "function": function}

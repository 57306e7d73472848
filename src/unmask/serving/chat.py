"""A conversation to go on with, in no dialect: what all chat endpoints make of their bodies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from unmask.answers.reading import Reading
from unmask.answers.strict import auto_pattern
from unmask.answers.tools import Tool, ToolChoice, check_tools, forced_schema
from unmask.errors import InvalidValueError, UnmaskError, UnsupportedValueError
from unmask.params import CONSTRAINTS, GenerationParams, ModelInfo
from unmask.serving.admission import Admission
from unmask.serving.served_model import ServedModel

_NO_PARAMETERS = {"type": "object", "properties": {}}


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


async def encode_chat(model: ServedModel, chat: Chat) -> list[int]:
    """Prompt ids. Raises ``InvalidValueError`` for more copies than fit at once, ``UnsupportedValueError`` for
    ``thinking`` or ``effort`` that is not the model's to choose, or a ``prefill`` that would be reasoning, and what
    ``ChatTemplate.encode`` raises.
    """
    model.places.check(chat.copies, "n")
    check_tools(chat.tools, chat.choice)
    variables: dict[str, Any] = {}
    if chat.thinking is not None:
        _check_thinking(model, chat.thinking)
        variables["enable_thinking"] = chat.thinking
    if chat.effort is not None:
        _check_effort(model, chat)
        variables["reasoning_effort"] = chat.effort
    prompt = await model.encode_messages(chat.messages, [_told(tool) for tool in chat.offered], **variables)
    return [*prompt, *await _prefilled(model, prompt, chat.prefill)] if chat.prefill else prompt


async def admit_chat(model: ServedModel, chat: Chat, prompt: list[int], variant: ModelInfo, tenant: str) -> Admission:
    """``chat``, checked, with its ``prompt`` from ``encode_chat``. Raises what ``ServedModel.requests`` raises."""
    form = _form(model, chat)
    reading = Reading(
        syntax=model.syntax,
        tools=bool(chat.offered),
        one_call=chat.one_call,
        opened=model.opens_reasoning(prompt),
        forced=chat.choice.forced,
        open_ended="regex" in form,
    )
    with _blaming_tools(form):
        params = replace(chat.params, **form)
        markers, copies = reading.shown, chat.copies
        requests = await model.requests([prompt], params, variant, tenant, markers=markers, copies=copies)
    return Admission(model, requests, reading)


def _form(model: ServedModel, chat: Chat) -> dict[str, Any]:
    """What the tools say of the answer's form, as parameters: of a call that must be, or of calls that may be."""
    with _blaming_tools(["json_schema"]):
        if chat.choice.forced:
            form: dict[str, Any] = {"json_schema": forced_schema(chat.tools, chat.choice)}
        else:
            pattern = auto_pattern(chat.offered, model.syntax, model.tokenizer.specials)
            form = {} if pattern is None else {"regex": pattern}
    given = next((name for name in CONSTRAINTS if getattr(chat.params, name) is not None), None)
    if form and given is not None:
        param, what = ("tool_choice", "'tool_choice'") if chat.choice.forced else ("tools", "Strict 'tools'")
        raise InvalidValueError(
            f"{what} and the {given.replace('_', ' ')} asked for both say what the answer looks like.",
            hint="Give one of them.",
            param=param,
        )
    return form


@contextmanager
def _blaming_tools(names: Collection[str]) -> Iterator[None]:
    """Errors from inside that name one of ``names``, which tools have become, name those."""
    try:
        yield
    except UnmaskError as error:
        for name in names:
            error.message = error.message.replace(f"'{name}'", "'tools'")
            error.param = "tools" if error.param == name else error.param
        raise


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


def _check_thinking(model: ServedModel, thinking: bool) -> None:
    """A switch that the template does not have must not seem to be thrown."""
    if "enable_thinking" not in model.template.variables and thinking != (model.syntax.reasoning is not None):
        raise UnsupportedValueError(
            "This model's chat template always lets it reason before it answers."
            if model.syntax.reasoning is not None
            else "This model does not reason before it answers.",
            hint="Leave 'thinking' out.",
            param="thinking",
        )


def _check_effort(model: ServedModel, chat: Chat) -> None:
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
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters or _NO_PARAMETERS}
    return {"type": "function", "function": function}

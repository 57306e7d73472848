"""From a conversation to the request that our engine answers it with."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from unmask.answers.chat import Chat, check_variables
from unmask.answers.reading import Reading
from unmask.answers.strict import auto_pattern
from unmask.answers.tools import Tool, check_tools, forced_schema
from unmask.errors import InvalidValueError, UnmaskError, UnsupportedValueError
from unmask.params import CONSTRAINTS, ModelInfo
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.engine_admission import EngineAdmission

_NO_PARAMETERS = {"type": "object", "properties": {}}


async def encode_chat(model: DiffusionModel, chat: Chat) -> list[int]:
    """Prompt ids. Raises ``InvalidValueError`` for more copies than fit at once, ``UnsupportedValueError`` for
    ``thinking``, ``effort`` or ``variables`` that are not the model's to choose, or a ``prefill`` that would be
    reasoning, and what ``ChatTemplate.encode`` raises.
    """
    model.places.check(chat.copies, "n")
    check_tools(chat.tools, chat.choice)
    check_variables(chat.variables, model.template.variables)
    variables: dict[str, Any] = {**chat.variables}
    if chat.thinking is not None:
        _check_thinking(model, chat.thinking)
        variables["enable_thinking"] = chat.thinking
    if chat.effort is not None:
        _check_effort(model, chat)
        variables["reasoning_effort"] = chat.effort
    prompt = await model.encode_messages(chat.messages, [_told(tool) for tool in chat.offered], **variables)
    return [*prompt, *await _prefilled(model, prompt, chat.prefill)] if chat.prefill else prompt


async def admit_chat(
    model: DiffusionModel, chat: Chat, prompt: list[int], variant: ModelInfo, tenant: str
) -> EngineAdmission:
    """``chat``, checked, with its ``prompt`` from ``encode_chat``. Raises what ``DiffusionModel.requests`` raises."""
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
    return EngineAdmission(model, requests, reading)


def _form(model: DiffusionModel, chat: Chat) -> dict[str, Any]:
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


def _check_thinking(model: DiffusionModel, thinking: bool) -> None:
    """A switch that the template does not have must not seem to be thrown."""
    if "enable_thinking" not in model.template.variables and thinking != (model.syntax.reasoning is not None):
        raise UnsupportedValueError(
            "This model's chat template always lets it reason before it answers."
            if model.syntax.reasoning is not None
            else "This model does not reason before it answers.",
            hint="Leave 'thinking' out.",
            param="thinking",
        )


def _check_effort(model: DiffusionModel, chat: Chat) -> None:
    """Where it does not go along with ``thinking``, it must mean something to the template."""
    if chat.thinking is None and "reasoning_effort" not in model.template.variables:
        raise UnsupportedValueError("This model's chat template knows no effort.", hint="Leave it out.", param="effort")


async def _prefilled(model: DiffusionModel, prompt: list[int], text: str) -> list[int]:
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

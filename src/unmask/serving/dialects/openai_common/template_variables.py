"""``chat_template_kwargs``: variables of the chat template, as vLLM, SGLang and llama.cpp take them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from unmask.errors import InvalidValueError
from unmask.serving.fields import agree

FIELD = "chat_template_kwargs"

_MOST = 16
_LONGEST = 1024  # characters of a text, and bits of a number
_SWITCHES = ("enable_thinking", "thinking")  # what templates call it


def _check(given: dict[str, Any]) -> dict[str, Any]:
    plain = len(given) <= _MOST and all(len(name) <= 64 and _is_plain(value) for name, value in given.items())
    if not plain:
        raise PydanticCustomError(
            "variables", "it may have {most} numbers, texts, true or false, by short names", {"most": _MOST}
        )
    return given


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST
    return isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= 64)


TemplateVariables = Annotated[dict[str, Any], AfterValidator(_check)]


def parse_variables(
    given: dict[str, Any] | None, thinking: bool | None = None, effort: str | None = None
) -> dict[str, Any]:
    """What ``Chat`` has of the variables ``given``: whether to reason and how much are told apart from the others.

    ``thinking`` and ``effort`` are what ``reasoning_effort`` says. Raises ``InvalidValueError`` if they differ.
    """
    variables = dict(given or {})
    for name in _SWITCHES:
        if name in variables:
            said = variables.pop(name)
            if not isinstance(said, bool):
                raise InvalidValueError(f"'{FIELD}.{name}' must be true or false.", param=f"{FIELD}.{name}")
            thinking = agree("reasoning_effort", thinking, f"{FIELD}.{name}", said)
    if "reasoning_effort" in variables:
        said = variables.pop("reasoning_effort")
        if not isinstance(said, str):
            raise InvalidValueError(f"'{FIELD}.reasoning_effort' must be a text.", param=f"{FIELD}.reasoning_effort")
        effort = agree("reasoning_effort", effort, f"{FIELD}.reasoning_effort", said)
    return {"thinking": thinking, "effort": effort, "variables": variables}


def variable_names(given: dict[str, Any] | None) -> dict[str, str]:
    """How errors name what has become of the variables ``given``."""
    switch = next((name for name in _SWITCHES if name in (given or {})), None)
    return ({} if switch is None else {"thinking": f"{FIELD}.{switch}"}) | (
        {"effort": f"{FIELD}.reasoning_effort"} if "reasoning_effort" in (given or {}) else {}
    )

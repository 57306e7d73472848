"""``text.format``: what the answer's text must look like."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from unmask.errors import InvalidValueError
from unmask.serving.wire import Only, WireModel

_ANY_OBJECT = {"type": "object"}


class TextFormat(WireModel):
    """Text, any JSON object, or JSON that fits a schema; ``name``, ``description`` and ``strict`` change nothing: it is
    always enforced.
    """

    foreign_names: ClassVar[dict[str, str]] = {"json_schema": "schema"}

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class Text(WireModel):
    """The request's ``text``."""

    foreign_names: ClassVar[dict[str, str]] = {"type": "format.type", "json_schema": "format.schema"}

    format: TextFormat | None = None
    verbosity: Annotated[Any, Only("medium")] = None


def schema_of(text: Text | None) -> Any:
    """The schema that ``text`` stands for, None for plain text. Raises ``InvalidValueError`` if parts do not fit."""
    wanted = None if text is None else text.format
    if wanted is None:
        return None
    for field, value in (("schema", wanted.schema_), ("name", wanted.name)):
        if (wanted.type == "json_schema") != (value is not None):
            verb = "needs" if value is None else "takes no"
            raise InvalidValueError(
                f"'text.format' of type '{wanted.type}' {verb} '{field}'.", param=f"text.format.{field}"
            )
    return _ANY_OBJECT if wanted.type == "json_object" else wanted.schema_


def echo_format(text: Text | None) -> dict[str, Any]:
    """The format for the response."""
    wanted = None if text is None else text.format
    if wanted is None:
        return {"type": "text"}
    return wanted.model_dump(by_alias=True, exclude_none=True)

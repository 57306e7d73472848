"""``response_format``: JSON asked for as OpenAI's clients ask for it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from unmask.errors import InvalidValueError
from unmask.serving.wire import WireModel

_ANY_OBJECT = {"type": "object"}


class NamedSchema(WireModel):
    """A schema; ``name``, ``description`` and ``strict`` change nothing: it is always enforced."""

    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    schema_: Annotated[Any, Field(alias="schema")]


class ResponseFormat(WireModel):
    """Text, any JSON object, or JSON that fits a schema."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: NamedSchema | None = None


def schema_of(wanted: ResponseFormat | None) -> Any:
    """The schema that ``wanted`` stands for; None for text. Raises ``InvalidValueError`` if its parts do not fit."""
    if wanted is None:
        return None
    if (wanted.type == "json_schema") != (wanted.json_schema is not None):
        raise InvalidValueError(
            f"'response_format' of type '{wanted.type}' "
            + ("needs 'json_schema'." if wanted.json_schema is None else "takes no 'json_schema'."),
            param="response_format.json_schema",
        )
    if wanted.json_schema is not None:
        if wanted.json_schema.schema_ is None:
            raise InvalidValueError(
                "'response_format.json_schema.schema' is null.",
                hint="Give a JSON schema.",
                param="response_format.json_schema.schema",
            )
        return wanted.json_schema.schema_
    return _ANY_OBJECT if wanted.type == "json_object" else None

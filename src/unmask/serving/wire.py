"""The ground every request schema stands on: strict types, no unknown fields, honest gates."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from unmask.errors import InvalidValueError


class WireModel(BaseModel):
    """An object in a request: a field it does not know is an error that names the field."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RequestBody(WireModel):
    """A whole request."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_half_characters(cls, body: Any) -> Any:
        """JSON can spell half of a surrogate pair, which is no character and no tokenizer takes."""
        if not isinstance(body, dict):
            return body
        try:
            json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise InvalidValueError("The body holds half of a surrogate pair.", hint="Send UTF-8 text.") from None
        return body


class Only:
    """Marks a field that is known but honoured only for ``values`` and null: else ``unsupported_value``.

    Used as ``Annotated[Any, Only(...)]`` for the harmless defaults that clients always send.
    """

    def __init__(self, *values: Any) -> None:
        self._values = values

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: Any) -> Any:
        if value is None or any(_same(value, allowed) for allowed in self._values):
            return value
        if not self._values:
            raise PydanticCustomError("unsupported_value", "it is not supported; leave it out")
        allowed = " or ".join(repr(value) for value in self._values)
        raise PydanticCustomError("unsupported_value", "only {allowed} is supported", {"allowed": allowed})


def _same(value: Any, allowed: Any) -> bool:
    """Equality that keeps true and 1 apart."""
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)

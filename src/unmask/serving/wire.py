"""The ground every request schema stands on: strict types, no unknown fields, honest gates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


class WireModel(BaseModel):
    """An object in a request: a field it does not know is an error that names the field.

    ``foreign_names``: what other APIs call a thing that this object has, and the path of the field that it has for it,
    for that error's hint.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    foreign_names: ClassVar[dict[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _keep_one_unknown(cls, value: Any) -> Any:
        """A body can hold very many unknown fields, and pydantic would make an error of each."""
        names = names_of(cls)
        if not isinstance(value, dict) or value.keys() <= names:
            return value
        first = next(name for name in value if name not in names)
        return {name: value[name] for name in names if name in value} | {first: Unknown(cls)}


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands where a field is that ``model`` does not have: what refuses it can tell of those that it has."""

    model: type[WireModel]


@cache
def names_of(model: type[WireModel]) -> frozenset[str]:
    """The names of the fields that an object of ``model`` may have."""
    return frozenset(field.alias or name for name, field in model.__pydantic_fields__.items())


class Only:
    """Marks a field that is known but honoured only for ``values`` and null: else ``unsupported_value``.

    Used as ``Annotated[Any, Only(...)]`` for the harmless defaults that clients always send.
    """

    def __init__(self, *values: Any) -> None:
        self._values = values

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """What the OpenAPI document says of it."""
        schema = handler(core)
        return schema | {"enum": [*self._values] if "type" in schema else [*self._values, None]}

    def _check(self, value: Any) -> Any:
        if value is None or any(_same(value, allowed) for allowed in self._values):
            return value
        if not self._values:
            raise PydanticCustomError("unsupported_value", "it is not supported; leave it out")
        allowed = " or ".join(json.dumps(value) for value in self._values)
        raise PydanticCustomError("unsupported_value", "only {allowed} is supported", {"allowed": allowed})


def _same(value: Any, allowed: Any) -> bool:
    """Equality that keeps true and 1 apart."""
    return bool(value == allowed) and isinstance(value, bool) == isinstance(allowed, bool)

"""Whether a JSON value breaks a schema, in bounded work.

It is for warnings, so it must never cry wolf: what it does not judge (expressions, formats, ``not``, ``if``, references
out of the schema) fits, as does all that is left when its work is used up. Where the answer must fit, it is held to the
schema while it is written (``constraints/``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

_VISITS = 20_000  # of a value with a schema
_DEPTH = 64
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def breaks(value: Any, schema: Any) -> bool:
    """Whether ``value`` surely does not fit ``schema``; both are JSON."""
    return _Check(schema).breaks(value, schema, _DEPTH)


class _Check:
    """One check against ``root``, which references are looked up in."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _VISITS

    def breaks(self, value: Any, schema: Any, depth: int) -> bool:
        self._left -= 1
        if schema is False:
            return True
        if not isinstance(schema, Mapping) or self._left < 0 or depth < 0:
            return False
        if "$ref" in schema:  # older drafts take no notice of what stands beside it
            return self.breaks(value, self._find(schema["$ref"]), depth - 1)
        return (
            _of_other_kind(value, schema)
            or self._fits_no_alternative(value, schema, depth)
            or (isinstance(value, dict) and self._object_breaks(value, schema, depth))
            or (isinstance(value, list) and self._array_breaks(value, schema, depth))
            or (isinstance(value, str) and _out_of_range(len(value), schema, "minLength", "maxLength"))
            or (_is_number(value) and _number_breaks(value, schema))
        )

    def _find(self, reference: Any) -> Any:
        """The part of the schema that a reference names; True, which everything fits, if it is not there."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        found = self._root
        for name in reference[1:].split("/")[1:]:
            key = name.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, Mapping) or key not in found:
                return True
            found = found[key]
        return found

    def _fits_no_alternative(self, value: Any, schema: Mapping[str, Any], depth: int) -> bool:
        for name in ("anyOf", "oneOf"):
            options = schema.get(name)
            if isinstance(options, list) and options and all(self.breaks(value, one, depth - 1) for one in options):
                return True
        every = schema.get("allOf")
        return isinstance(every, list) and any(self.breaks(value, one, depth - 1) for one in every)

    def _object_breaks(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> bool:
        required, known = schema.get("required"), schema.get("properties")
        known = known if isinstance(known, Mapping) else {}
        if isinstance(required, list) and any(isinstance(name, str) and name not in value for name in required):
            return True
        if _out_of_range(len(value), schema, "minProperties", "maxProperties"):
            return True
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        return any(self.breaks(one, known.get(name, others), depth - 1) for name, one in value.items())

    def _array_breaks(self, value: list[Any], schema: Mapping[str, Any], depth: int) -> bool:
        first = schema.get("prefixItems", [])
        if _out_of_range(len(value), schema, "minItems", "maxItems") or not isinstance(first, list):
            return _out_of_range(len(value), schema, "minItems", "maxItems")
        each = schema.get("items", True)
        if any(self.breaks(one, form, depth - 1) for one, form in zip(value, first, strict=False)):
            return True
        return any(self.breaks(one, each, depth - 1) for one in value[len(first) :])


def _of_other_kind(value: Any, schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if all(isinstance(kind, str) and kind in _TYPES for kind in kinds) and not any(_is(value, kind) for kind in kinds):
        return True
    if "const" in schema and not _equal(value, schema["const"]):
        return True
    allowed = schema.get("enum")
    return isinstance(allowed, list) and not any(_equal(value, one) for one in allowed)


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    return isinstance(value, _TYPES[kind]) and (kind != "integer" or not isinstance(value, float) or value.is_integer())


def _equal(value: Any, other: Any) -> bool:
    """As JSON has it: true is not 1. Only simple values are told apart; the others pass."""
    if isinstance(value, dict | list) and type(value) is type(other):
        return True
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number_breaks(value: float, schema: Mapping[str, Any]) -> bool:
    beyond = (("exclusiveMinimum", 1), ("exclusiveMaximum", -1))
    if _out_of_range(value, schema, "minimum", "maximum"):
        return True
    return any(_is_number(limit := schema.get(name)) and sign * value <= sign * limit for name, sign in beyond)


def _out_of_range(size: float, schema: Mapping[str, Any], least: str, most: str) -> bool:
    low, high = schema.get(least), schema.get(most)
    return bool((_is_number(low) and size < low) or (_is_number(high) and size > high))

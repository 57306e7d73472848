"""Which of several schemas exclude each other, so that a value that fits one of them fits exactly one."""

from __future__ import annotations

from typing import Any

_ALL = frozenset(("object", "array", "string", "number", "boolean", "null"))


def apart(one: Any, other: Any) -> bool:
    """Whether no value can fit both schemas, by their types or by the values that they list."""
    first, second = _listed(one), _listed(other)
    if first is not None and second is not None:
        return not any(a == b and _type(a) == _type(b) for a in first for b in second)
    return not _types(one) & _types(other)


def _types(schema: Any) -> frozenset[str]:
    """The types that the values of ``schema`` can have; integers are numbers."""
    if not isinstance(schema, dict):
        return _ALL
    values = _listed(schema)
    if values is not None:
        return frozenset(_type(value) for value in values)
    named = schema.get("type", list(_ALL))
    names = named if isinstance(named, list) else [named]
    return frozenset("number" if name == "integer" else str(name) for name in names)


def distinguishing(one: Any, other: Any) -> str | None:
    """A property whose value, where it is there, fits at most one of two schemas of objects; None if there is none."""
    if _types(one) & _types(other) != {"object"}:
        return None
    first, second = _choices(one), _choices(other)
    return next((name for name in first if name in second and not first[name] & second[name]), None)


def _choices(schema: Any) -> dict[str, set[str]]:
    """The texts that each of the properties can be that can be one of a few."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    found = {}
    for name, value in properties.items() if isinstance(properties, dict) else ():
        values = _listed(value)
        if values is not None and all(isinstance(one, str) for one in values):
            found[name] = set(values)
    return found


def _listed(schema: Any) -> list[Any] | None:
    """All values that fit, where they are listed."""
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return [schema["const"]]
    return schema["enum"] if isinstance(schema.get("enum"), list) else None


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"

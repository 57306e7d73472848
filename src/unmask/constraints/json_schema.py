"""From a JSON schema to a regular expression of compact JSON.

What cannot be enforced is refused by name, never ignored. The texts of the expression are some of those that the schema
allows, never others: properties come in the schema's order and no further ones are made, a colon or comma may be
followed by one space and there is no other white space, and where the schema leaves a value open it nests at most
``DEPTH`` levels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from itertools import combinations
from typing import Any, TypeVar

from unmask.constraints.alternatives import apart, distinguishing
from unmask.constraints.formats import FREE, RANGES, STRINGS
from unmask.constraints.json_text import any_value, either, json_items, json_literal, json_map, json_members
from unmask.constraints.numbers import integers, numbers
from unmask.constraints.schema_limits import bounded, refusal, together
from unmask.constraints.string_pattern import CHARACTER, string_pattern
from unmask.shown import shown

DEPTH = 2
_MAX_COUNT = 4096
_MAX_LEVEL = 64
_MAX_BOUND = 10**18

_NOTES = frozenset((
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id",
    "$defs", "definitions", "discriminator", "contentMediaType", "contentEncoding", "contentSchema",
))  # fmt: skip
_T = TypeVar("_T")
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")


def schema_pattern(schema: Any) -> str:
    """The expression of ``schema``, a JSON value. Raises ``UnsupportedValueError`` (param ``json_schema``)."""
    try:
        plain = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal("#", f"it is no JSON ({error})") from None
    return _Reader(plain).read(plain, "#", DEPTH)


class _Reader:
    """Reads one schema. ``_open`` are the references that are being followed, ``_known`` those that were, by depth."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._open: list[str] = []
        self._known: dict[tuple[str, int], str] = {}
        self._level = 0
        self._kinds: dict[str, Callable[[dict[str, Any], str, int], str]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda schema, at, depth: "(?:true|false)",
            "null": lambda schema, at, depth: "null",
        }

    def read(self, schema: Any, at: str, depth: int) -> str:
        """The expression of the ``schema`` that stands ``at`` a place of the whole."""
        if schema is True or schema == {}:
            return any_value(depth)
        if not isinstance(schema, dict):
            raise refusal(at, f"{schema!r} allows nothing" if schema is False else "it is not a schema")
        if self._level == _MAX_LEVEL:
            raise refusal(at, f"it nests more than {_MAX_LEVEL} levels")
        self._level += 1
        pattern = self._asserted({name: schema[name] for name in schema if not _is_note(name)}, at, depth)
        self._level -= 1
        return bounded(pattern, at)

    def _asserted(self, schema: dict[str, Any], at: str, depth: int) -> str:
        if not schema:
            return any_value(depth)
        for name, reader in (
            ("$ref", self._reference),
            ("anyOf", self._any_of),
            ("oneOf", self._one_of),
            ("allOf", self._all_of),
        ):
            if name in schema:
                _only(schema, at, (name,))
                return reader(schema[name], f"{at}/{name}", depth)
        if "const" in schema or "enum" in schema:
            return self._listed(schema, at)
        names = _types(schema["type"], at) if "type" in schema else [_implied(schema, at)]
        _only(schema, at, {"type"}.union(*(_KEYWORDS[name] for name in names)))
        return either([self._kinds[name](schema, at, depth) for name in names])

    def _reference(self, target: Any, at: str, depth: int) -> str:
        if not isinstance(target, str) or not target.startswith("#"):
            raise refusal(at, f"{target!r} is not in this schema")
        if target in self._open or target == "#":
            raise refusal(at, f"'{target}' is recursive, which no finite automaton can follow")
        if (target, depth) in self._known:
            return self._known[target, depth]
        self._open.append(target)
        pattern = self.read(self._find(target, at), target, depth)
        self._open.pop()
        self._known[target, depth] = pattern
        return pattern

    def _find(self, target: str, at: str) -> Any:
        """What stands at ``target``."""
        found = self._root
        for step in target.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                raise refusal(at, f"'{target}' leads nowhere")
            found = found[step]
        return found

    def _any_of(self, schemas: Any, at: str, depth: int) -> str:
        if not isinstance(schemas, list) or not schemas:
            raise refusal(at, "it must be a list of schemas")
        return either(together((self.read(one, f"{at}/{number}", depth) for number, one in enumerate(schemas)), at))

    def _one_of(self, schemas: Any, at: str, depth: int) -> str:
        """Alternatives that exclude each other: by type, or by a property, which then is always there."""
        if not isinstance(schemas, list) or not schemas:
            raise refusal(at, "it must be a list of schemas")
        found = [self._followed(one, at) for one in schemas]
        needed: list[list[str]] = [[] for _ in found]
        for (first, one), (second, other) in combinations(enumerate(found), 2):
            if not apart(one, other):
                name = distinguishing(one, other)
                if name is None:
                    raise refusal(at, f"numbers {first} and {second} could both fit; use 'anyOf'")
                needed[first].append(name)
                needed[second].append(name)
        tightened = [
            {**one, "required": [*one.get("required", []), *names]} if names else one
            for one, names in zip(found, needed, strict=True)
        ]
        return self._any_of(tightened, at, depth)

    def _followed(self, schema: Any, at: str) -> Any:
        """``schema``, or what it is a reference to."""
        for _ in range(_MAX_LEVEL):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema
            schema = self._find(schema["$ref"], at)
        raise refusal(at, "its references are recursive")

    def _all_of(self, schemas: Any, at: str, depth: int) -> str:
        if not isinstance(schemas, list) or len(schemas) != 1:
            raise refusal(at, "more schemas than one at once are not supported")
        return self.read(schemas[0], f"{at}/0", depth)

    def _listed(self, schema: dict[str, Any], at: str) -> str:
        _only(schema, at, ("const", "enum", "type"))
        values = schema.get("enum", [schema.get("const")])
        if not isinstance(values, list) or not values:
            raise refusal(f"{at}/enum", "it must be a list of values")
        if "const" in schema:
            values = [value for value in values if _equal(value, schema["const"])]
        names = _types(schema.get("type", list(_TYPES)), at)
        fitting = [value for value in values if any(_is(value, name) for name in names)]
        if not fitting:
            raise refusal(at, "none of its values is of its type")
        return either([json_literal(value) for value in fitting])

    def _object(self, schema: dict[str, Any], at: str, depth: int) -> str:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        if not isinstance(properties, dict):
            raise refusal(f"{at}/properties", "it must be an object")
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise refusal(f"{at}/required", "it must be a list of names")
        unknown = [name for name in required if name not in properties]
        if unknown:
            raise refusal(f"{at}/required", f"{unknown[0]!r} is not among the properties")
        if not properties:
            return self._open_object(schema, at, depth)
        if "propertyNames" in schema:
            raise refusal(f"{at}/propertyNames", "it is not supported beside 'properties'")
        values = (self.read(value, f"{at}/properties/{name}", depth) for name, value in properties.items())
        needed = set(required)
        members = [
            (f"{json_literal(name)}: ?{value}", name in needed)
            for name, value in zip(properties, together(values, at), strict=True)
        ]
        return rf"\{{{json_members(members, at)}\}}"

    def _open_object(self, schema: dict[str, Any], at: str, depth: int) -> str:
        """An object whose names are not told. With ``properties`` that are none, others must be asked for."""
        further = schema.get("additionalProperties", "properties" not in schema)
        if further is False or (further is True and not depth):
            return r"\{\}"
        value = any_value(depth - 1) if further is True else self.read(further, f"{at}/additionalProperties", depth)
        names = self._followed(schema.get("propertyNames", True), at)
        if names is True:
            return json_map(value)
        if not isinstance(names, dict) or names.get("type", "string") != "string":
            raise refusal(f"{at}/propertyNames", "it must be the schema of a string")
        return json_map(value, self.read({"type": "string", **names}, f"{at}/propertyNames", depth))

    def _array(self, schema: dict[str, Any], at: str, depth: int) -> str:
        least = self._count(schema, "minItems", at, 0)
        most = self._count(schema, "maxItems", at, None)
        head = schema.get("prefixItems", [])
        if not isinstance(head, list):
            raise refusal(f"{at}/prefixItems", "it must be a list of schemas")
        items = schema.get("items", True)
        first = together((self.read(item, f"{at}/prefixItems/{n}", depth) for n, item in enumerate(head)), at)
        if items is False or (items is True and (head or not depth)):
            most = len(first) if most is None else min(most, len(first))
        if most is not None and (least or 0) > most:
            raise refusal(at, "no array is long enough and short enough")
        if most == 0:
            return r"\[\]"
        more = ""
        if most is None or most > len(first):
            more = any_value(depth - 1) if items is True else self.read(items, f"{at}/items", depth)
        return rf"\[{json_items(first, more, least or 0, most, at)}\]"

    def _string(self, schema: dict[str, Any], at: str, depth: int) -> str:
        least = self._count(schema, "minLength", at, 0)
        most = self._count(schema, "maxLength", at, None)
        bounded = least or most is not None
        formatted = "format" in schema and schema["format"] not in FREE
        if [bool(bounded), "pattern" in schema, formatted].count(True) > 1:
            raise refusal(at, "lengths, 'pattern' and 'format' cannot be combined")
        if "pattern" in schema:
            return f'"(?:{string_pattern(schema["pattern"], f"{at}/pattern")})"'
        if formatted:
            return f'"{_known(STRINGS, schema["format"], at)}"'
        if most is not None and (least or 0) > most:
            raise refusal(at, "no string is long enough and short enough")
        times = "*" if not bounded else f"{{{least},{'' if most is None else most}}}"
        return f'"{CHARACTER}{times}"'

    def _integer(self, schema: dict[str, Any], at: str, depth: int) -> str:
        low, above = self._bound(schema, "minimum", "exclusiveMinimum", at, max)
        high, below = self._bound(schema, "maximum", "exclusiveMaximum", at, min)
        least, most = _known(RANGES, schema["format"], at) if "format" in schema else (None, None)
        pattern = integers(
            max((n for n in (least, None if low is None else low + above) if n is not None), default=None),
            min((n for n in (most, None if high is None else high - below) if n is not None), default=None),
        )
        if pattern is None:
            raise refusal(at, "no integer lies within its bounds")
        return pattern

    def _number(self, schema: dict[str, Any], at: str, depth: int) -> str:
        low, above = self._bound(schema, "minimum", "exclusiveMinimum", at, max)
        high, below = self._bound(schema, "maximum", "exclusiveMaximum", at, min)
        if "format" in schema and _known(RANGES, schema["format"], at) != (None, None):
            raise refusal(f"{at}/format", f"{shown(schema['format'])} is for integers")
        pattern = numbers(low, high, above=above, below=below)
        if pattern is None:
            raise refusal(at, "no number lies within its bounds")
        return pattern

    def _count(self, schema: dict[str, Any], name: str, at: str, default: int | None) -> int | None:
        value = schema.get(name, default)
        if value is default:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_COUNT:
            raise refusal(f"{at}/{name}", f"it must be an integer from 0 to {_MAX_COUNT}")
        return value

    def _bound(
        self, schema: dict[str, Any], name: str, exclusive: str, at: str, tighter: Callable[[list[Any]], Any]
    ) -> tuple[int | None, bool]:
        """The tighter one of an inclusive and an exclusive bound, and whether it is the exclusive one."""
        found = []
        for key in (name, exclusive):
            if key in schema:
                value = schema[key]
                if not _is(value, "integer") or abs(value) > _MAX_BOUND:
                    raise refusal(f"{at}/{key}", f"bounds must be whole numbers of at most {_MAX_BOUND}")
                found.append((int(value), key == exclusive))
        if not found:
            return None, False
        best = tighter([value for value, _ in found])
        return best, any(excluded for value, excluded in found if value == best)


_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_KEYWORDS: dict[str, set[str]] = {
    "object": {"properties", "required", "additionalProperties", "propertyNames"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": {*_BOUNDS, "format"},
    "number": {*_BOUNDS, "format"},
    "boolean": set(),
    "null": set(),
}
_KNOWN = {"type", "const", "enum", "$ref", "anyOf", "oneOf", "allOf"}.union(*_KEYWORDS.values())


def _is_note(name: str) -> bool:
    """Whether a keyword says nothing about values."""
    return name in _NOTES or name.startswith("x-")


def _known(formats: dict[str, _T], name: Any, at: str) -> _T:
    """What ``formats`` say of the one called ``name``."""
    if not isinstance(name, str) or name not in formats:
        raise refusal(f"{at}/format", f"{shown(name)} is not supported", f"Use one of {', '.join(formats)}.")
    return formats[name]


def _types(value: Any, at: str) -> list[str]:
    """The names that a "type" gives, one or several."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(name in _TYPES for name in names):
        raise refusal(at, f"'type' is {value!r}")
    return names


def _implied(schema: dict[str, Any], at: str) -> str:
    """The type of a schema that does not say it, though its keywords leave no doubt that it is meant."""
    fitting = [name for name in ("object", "array", "string") if _KEYWORDS[name] & schema.keys()]
    if len(fitting) != 1:
        _only(schema, at, _KNOWN)
        raise refusal(at, "it has no 'type'")
    return fitting[0]


def _only(schema: dict[str, Any], at: str, names: Collection[str]) -> None:
    """Raises unless ``schema`` has no other keywords than ``names``."""
    for name in schema:
        if name not in names:
            raise refusal(at, f"'{name}' is not supported" + (" here" if name in _KNOWN else ""))


def _is(value: Any, name: str) -> bool:
    """Whether a JSON ``value`` is of the type ``name``."""
    match name:
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)

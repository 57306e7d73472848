"""From a JSON schema to a regular expression of compact JSON.

What cannot be enforced is refused by name, never ignored. The texts of the expression are some of those that the schema
allows, never others: properties come in the schema's order and no further ones are made, a colon or comma may be
followed by one space and there is no other white space, and where the schema leaves a value open it nests at most
``DEPTH`` levels.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from typing import Any

from unmask.constraints.literal import escape
from unmask.constraints.numbers import NUMBER, integers, numbers
from unmask.constraints.string_pattern import CHARACTER, string_pattern
from unmask.errors import UnsupportedValueError
from unmask.shown import shown

DEPTH = 2
_MAX_PATTERN = 2**18
_MAX_COUNT = 4096
_MAX_LEVEL = 64
_MAX_BOUND = 10**18

_NOTES = frozenset((
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id",
    "$defs", "definitions",
))  # fmt: skip
_TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_DATE = rf"[0-9]{{3}}[1-9]-{_DAY}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    "ipv4": rf"(?:{_BYTE}\.){{3}}{_BYTE}",
    "hostname": rf"{_LABEL}(?:\.{_LABEL}){{0,4}}",
    "email": rf"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@{_LABEL}(?:\.{_LABEL}){{1,4}}",
}


def schema_pattern(schema: Any) -> str:
    """The expression of ``schema``, a JSON value. Raises ``UnsupportedValueError`` (param ``json_schema``)."""
    try:
        plain = json.loads(json.dumps(schema, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal("#", f"it is no JSON ({error})") from None
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
            return _any_value(depth)
        if not isinstance(schema, dict):
            raise _refusal(at, f"{schema!r} allows nothing" if schema is False else "it is not a schema")
        if self._level == _MAX_LEVEL:
            raise _refusal(at, f"it nests more than {_MAX_LEVEL} levels")
        self._level += 1
        pattern = self._asserted({name: schema[name] for name in schema if name not in _NOTES}, at, depth)
        self._level -= 1
        return _bounded(pattern, at)

    def _asserted(self, schema: dict[str, Any], at: str, depth: int) -> str:
        if not schema:
            return _any_value(depth)
        for name, reader in (("$ref", self._reference), ("anyOf", self._any_of), ("allOf", self._all_of)):
            if name in schema:
                _only(schema, at, (name,))
                return reader(schema[name], f"{at}/{name}", depth)
        if "const" in schema or "enum" in schema:
            return self._listed(schema, at)
        names = _types(schema["type"], at) if "type" in schema else [_implied(schema, at)]
        _only(schema, at, {"type"}.union(*(_KEYWORDS[name] for name in names)))
        return _either([self._kinds[name](schema, at, depth) for name in names])

    def _reference(self, target: Any, at: str, depth: int) -> str:
        if not isinstance(target, str) or not target.startswith("#"):
            raise _refusal(at, f"{target!r} is not in this schema")
        if target in self._open or target == "#":
            raise _refusal(at, f"'{target}' is recursive, which no finite automaton can follow")
        if (target, depth) in self._known:
            return self._known[target, depth]
        found = self._root
        for step in target.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or step not in found:
                raise _refusal(at, f"'{target}' leads nowhere")
            found = found[step]
        self._open.append(target)
        pattern = self.read(found, target, depth)
        self._open.pop()
        self._known[target, depth] = pattern
        return pattern

    def _any_of(self, schemas: Any, at: str, depth: int) -> str:
        if not isinstance(schemas, list) or not schemas:
            raise _refusal(at, "it must be a list of schemas")
        return _either(_together((self.read(one, f"{at}/{number}", depth) for number, one in enumerate(schemas)), at))

    def _all_of(self, schemas: Any, at: str, depth: int) -> str:
        if not isinstance(schemas, list) or len(schemas) != 1:
            raise _refusal(at, "more schemas than one at once are not supported")
        return self.read(schemas[0], f"{at}/0", depth)

    def _listed(self, schema: dict[str, Any], at: str) -> str:
        _only(schema, at, ("const", "enum", "type"))
        values = schema.get("enum", [schema.get("const")])
        if not isinstance(values, list) or not values:
            raise _refusal(f"{at}/enum", "it must be a list of values")
        if "const" in schema:
            values = [value for value in values if _equal(value, schema["const"])]
        names = _types(schema.get("type", list(_TYPES)), at)
        fitting = [value for value in values if any(_is(value, name) for name in names)]
        if not fitting:
            raise _refusal(at, "none of its values is of its type")
        return _either([_literal(value) for value in fitting])

    def _object(self, schema: dict[str, Any], at: str, depth: int) -> str:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        further = schema.get("additionalProperties", True)
        if not isinstance(properties, dict):
            raise _refusal(f"{at}/properties", "it must be an object")
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise _refusal(f"{at}/required", "it must be a list of names")
        unknown = [name for name in required if name not in properties]
        if unknown:
            raise _refusal(f"{at}/required", f"{unknown[0]!r} is not among the properties")
        if not properties:
            if further is True and depth:
                return _any_object(depth)
            if isinstance(further, bool):
                return r"\{\}"
            return _map(self.read(further, f"{at}/additionalProperties", depth))
        values = (self.read(value, f"{at}/properties/{name}", depth) for name, value in properties.items())
        needed = set(required)
        members = [
            (f"{_literal(name)}: ?{value}", name in needed)
            for name, value in zip(properties, _together(values, at), strict=True)
        ]
        return rf"\{{{_members(members, at)}\}}"

    def _array(self, schema: dict[str, Any], at: str, depth: int) -> str:
        least = self._count(schema, "minItems", at, 0)
        most = self._count(schema, "maxItems", at, None)
        head = schema.get("prefixItems", [])
        if not isinstance(head, list):
            raise _refusal(f"{at}/prefixItems", "it must be a list of schemas")
        items = schema.get("items", True)
        first = _together((self.read(item, f"{at}/prefixItems/{n}", depth) for n, item in enumerate(head)), at)
        if items is False or (items is True and (head or not depth)):
            most = len(first) if most is None else min(most, len(first))
        if most is not None and (least or 0) > most:
            raise _refusal(at, "no array is long enough and short enough")
        if most == 0:
            return r"\[\]"
        more = ""
        if most is None or most > len(first):
            more = _any_value(depth - 1) if items is True else self.read(items, f"{at}/items", depth)
        return rf"\[{_items(first, more, least or 0, most, at)}\]"

    def _string(self, schema: dict[str, Any], at: str, depth: int) -> str:
        least = self._count(schema, "minLength", at, 0)
        most = self._count(schema, "maxLength", at, None)
        bounded = least or most is not None
        if [bool(bounded), "pattern" in schema, "format" in schema].count(True) > 1:
            raise _refusal(at, "lengths, 'pattern' and 'format' cannot be combined")
        if "pattern" in schema:
            return f'"(?:{string_pattern(schema["pattern"], f"{at}/pattern")})"'
        if "format" in schema:
            if not isinstance(schema["format"], str) or schema["format"] not in _FORMATS:
                raise _refusal(
                    f"{at}/format", f"{shown(schema['format'])} is not supported", f"Use one of {', '.join(_FORMATS)}."
                )
            return f'"{_FORMATS[schema["format"]]}"'
        if most is not None and (least or 0) > most:
            raise _refusal(at, "no string is long enough and short enough")
        times = "*" if not bounded else f"{{{least},{'' if most is None else most}}}"
        return f'"{CHARACTER}{times}"'

    def _integer(self, schema: dict[str, Any], at: str, depth: int) -> str:
        low, above = self._bound(schema, "minimum", "exclusiveMinimum", at, max)
        high, below = self._bound(schema, "maximum", "exclusiveMaximum", at, min)
        pattern = integers(None if low is None else low + above, None if high is None else high - below)
        if pattern is None:
            raise _refusal(at, "no integer lies within its bounds")
        return pattern

    def _number(self, schema: dict[str, Any], at: str, depth: int) -> str:
        low, above = self._bound(schema, "minimum", "exclusiveMinimum", at, max)
        high, below = self._bound(schema, "maximum", "exclusiveMaximum", at, min)
        pattern = numbers(low, high, above=above, below=below)
        if pattern is None:
            raise _refusal(at, "no number lies within its bounds")
        return pattern

    def _count(self, schema: dict[str, Any], name: str, at: str, default: int | None) -> int | None:
        value = schema.get(name, default)
        if value is default:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_COUNT:
            raise _refusal(f"{at}/{name}", f"it must be an integer from 0 to {_MAX_COUNT}")
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
                    raise _refusal(f"{at}/{key}", f"bounds must be whole numbers of at most {_MAX_BOUND}")
                found.append((int(value), key == exclusive))
        if not found:
            return None, False
        best = tighter([value for value, _ in found])
        return best, any(excluded for value, excluded in found if value == best)


_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_KEYWORDS: dict[str, set[str]] = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "prefixItems", "minItems", "maxItems"},
    "string": {"minLength", "maxLength", "pattern", "format"},
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "boolean": set(),
    "null": set(),
}
_KNOWN = {"type", "const", "enum", "$ref", "anyOf", "allOf"}.union(*_KEYWORDS.values())


def _types(value: Any, at: str) -> list[str]:
    """The names that a "type" gives, one or several."""
    names = value if isinstance(value, list) else [value]
    if not names or not all(name in _TYPES for name in names):
        raise _refusal(at, f"'type' is {value!r}")
    return names


def _implied(schema: dict[str, Any], at: str) -> str:
    """The type of a schema that does not say it, though its keywords leave no doubt that it is meant."""
    fitting = [name for name in ("object", "array", "string") if _KEYWORDS[name] & schema.keys()]
    if len(fitting) != 1:
        _only(schema, at, _KNOWN)
        raise _refusal(at, "it has no 'type'")
    return fitting[0]


def _refusal(at: str, what: str, hint: str = "") -> UnsupportedValueError:
    return UnsupportedValueError(
        f"The schema cannot be enforced at '{at[:200]}': {what[:200]}.", hint=hint, param="json_schema"
    )


def _bounded(pattern: str, at: str) -> str:
    """``pattern``, unless it has grown too large: parts of it are written more than once."""
    if len(pattern) > _MAX_PATTERN:
        raise _too_large(at)
    return pattern


def _too_large(at: str) -> UnsupportedValueError:
    return _refusal(at, f"its expression becomes longer than {_MAX_PATTERN} characters")


def _together(patterns: Iterable[str], at: str) -> list[str]:
    """All of ``patterns``. Raises as soon as they have grown too large together: one that is repeated costs nothing."""
    found, length = [], 0
    for pattern in patterns:
        found.append(pattern)
        length += len(pattern)
        if length > _MAX_PATTERN:
            raise _too_large(at)
    return found


def _only(schema: dict[str, Any], at: str, names: Collection[str]) -> None:
    """Raises unless ``schema`` has no other keywords than ``names``."""
    for name in schema:
        if name not in names:
            raise _refusal(at, f"'{name}' is not supported" + (" here" if name in _KNOWN else ""))


def _either(patterns: list[str]) -> str:
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(dict.fromkeys(patterns))})"


def _literal(value: Any) -> str:
    """The one way in which ``value`` is written."""
    return escape(json.dumps(value, ensure_ascii=False))


def _map(value: str) -> str:
    member = f'"{CHARACTER}*": ?{value}'
    return rf"\{{(?:{member}(?:, ?{member})*)?\}}"


def _members(members: list[tuple[str, bool]], at: str) -> str:
    """Members in order, each with whether it is required, with commas between those that are there."""
    after = ""  # what follows once something stands before it
    alone = ""  # what follows if nothing does
    for member, required in reversed(members):
        if required:
            alone = f"{member}{after}"
            after = f", ?{member}{after}"
        else:
            alone = f"(?:{member}{after}|{alone})" if alone else f"(?:{member}{after})?"
            after = f"(?:, ?{member})?{after}"
        _bounded(alone, at)
    return alone


def _items(first: list[str], more: str, least: int, most: int | None, at: str) -> str:
    """An array's inside: the ``first`` ones, then any number of ``more``, ``least`` to ``most`` in all."""
    tail = ""
    if more:
        low = max(least - len(first), 0)
        if not first:
            low, high = max(least - 1, 0), "" if most is None else most - 1
            inside = f"{more}(?:, ?{more}){{{low},{high}}}"
            return inside if least else f"(?:{inside})?"
        high = "" if most is None else most - len(first)
        tail = f"(?:, ?{more}){{{low},{high}}}"
    elif most is not None:
        first = first[:most]
    inside = tail
    for number in range(len(first) - 1, -1, -1):
        item = first[number] if number == 0 else f", ?{first[number]}"
        inside = _bounded(f"{item}{inside}" if number < least else f"(?:{item}{inside})?", at)
    return inside


def _any_value(depth: int) -> str:
    scalar = f'(?:"{CHARACTER}*"|{NUMBER}|true|false|null)'
    if depth <= 0:
        return scalar
    inner = _any_value(depth - 1)
    return rf"(?:{scalar}|\[(?:{inner}(?:, ?{inner})*)?\]|{_any_object(depth)})"


def _any_object(depth: int) -> str:
    return _map(_any_value(depth - 1))


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

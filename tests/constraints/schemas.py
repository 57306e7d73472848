"""Random JSON schemas of what is supported, and a check of answers against them."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema

WORDS = ("a", "id", "name", "x y", 'quote"d', "é", "n0")
PATTERNS = ("^[a-c]+$", r"\d{2,3}", "(x|yz)?[^a]", r"^\w+-\w+$", "[!-~]{1,3}", ".{2}", r"\S+", "a.c|b")
FORMATS = ("date", "time", "date-time", "uuid", "ipv4", "hostname", "email", "duration", "ipv6", "uri")


def random_schema(rng: random.Random, depth: int = 2) -> Any:
    """A schema that nests at most ``depth`` levels; its answers can be short."""
    kinds = ["string", "integer", "number", "boolean", "null", "listed", "const"]
    if depth:
        kinds += ["object", "object", "array", "anyOf", "oneOf", "types"]
    kind = rng.choice(kinds)
    made = _MAKERS[kind](rng, depth)
    if rng.random() < 0.2:
        made["description"] = "some words"
    return made


def random_object(rng: random.Random) -> Any:
    """A schema of an object, as structured output mostly asks for."""
    return _object(rng, 2)


def check(schema: Any, text: str) -> None:
    """Raises unless ``text`` is one JSON value that fits ``schema``."""
    value = json.loads(text)
    validator = jsonschema.Draft202012Validator
    validator(schema, format_checker=validator.FORMAT_CHECKER).validate(value)


def _string(rng, depth):
    match rng.randrange(5):
        case 0:
            return {"type": "string", "pattern": rng.choice(PATTERNS)}
        case 1:
            return {"type": "string", "format": rng.choice(FORMATS)}
        case 2:
            low = rng.randrange(4)
            return {"type": "string", "minLength": low, "maxLength": low + rng.randrange(6)}
        case 3:
            return {"type": "string", "maxLength": rng.randrange(8)}
    return {"type": "string"}


def _bounds(rng):
    low = rng.randrange(-130, 130)
    names = rng.choice(
        (("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum"), ("minimum",), ("maximum",), ())
    )
    values = {"minimum": low, "exclusiveMinimum": low}
    return {name: values.get(name, low + 2 + rng.randrange(1200)) for name in names}


def _object(rng, depth):
    if rng.random() < 0.1:
        return {"type": "object", "additionalProperties": random_schema(rng, depth - 1)}
    names = rng.sample(WORDS, rng.randrange(1, 4))
    return {
        "type": "object",
        "properties": {name: random_schema(rng, depth - 1) for name in names},
        "required": [name for name in names if rng.random() < 0.7],
        **rng.choice(({}, {"additionalProperties": False})),
    }


def _array(rng, depth):
    if rng.random() < 0.3:
        head = [random_schema(rng, depth - 1) for _ in range(rng.randrange(1, 3))]
        return {"type": "array", "prefixItems": head, **rng.choice(({}, {"items": False}, {"minItems": len(head)}))}
    low = rng.randrange(3)
    bounds = rng.choice(({}, {"minItems": low}, {"minItems": low, "maxItems": low + rng.randrange(3)}))
    return {"type": "array", "items": random_schema(rng, depth - 1), **bounds}


def _one_of(rng, depth):
    made = [_object(rng, depth - 1) for _ in range(2)]
    for name, one in zip("pq", made, strict=True):
        one["properties"] = {**one.get("properties", {}), "kind": {"const": name}}
    return {"oneOf": [*made, {"type": rng.choice(("null", "integer", "string"))}]}


_MAKERS = {
    "string": _string,
    "integer": lambda rng, depth: {"type": "integer", **_bounds(rng)},
    "number": lambda rng, depth: {"type": "number", **_bounds(rng)},
    "boolean": lambda rng, depth: {"type": "boolean"},
    "null": lambda rng, depth: {"type": "null"},
    "listed": lambda rng, depth: {"enum": rng.sample(["a", "b c", 1, 2.5, None, True, {"k": [1]}, ["x"]], 3)},
    "const": lambda rng, depth: {"const": rng.choice(["fixed", 3, False])},
    "object": _object,
    "array": _array,
    "oneOf": _one_of,
    "anyOf": lambda rng, depth: {"anyOf": [random_schema(rng, depth - 1) for _ in range(2)]},
    "types": lambda rng, depth: {"type": rng.choice((["string", "null"], ["integer", "boolean"]))},
}

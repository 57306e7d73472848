"""Schemas as the libraries write them from which tools are made: they compile, and what they let through fits them."""

from __future__ import annotations

import datetime
import enum
import json
import random
import re
import uuid
from typing import Annotated, Any, Literal

import pydantic
import pytest

from tests.constraints.schemas import check
from tests.constraints.test_json_schema import walks
from unmask.constraints.json_schema import schema_pattern
from unmask.errors import UnsupportedValueError


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: Annotated[int, pydantic.Field(ge=0, le=9)]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str | None = None


class Search(pydantic.BaseModel):
    """Search for something."""

    query: str = pydantic.Field(description="What for", min_length=1)
    limit: int | None = pydantic.Field(default=None, gt=0)
    color: Color = Color.RED
    pet: Cat | Dog = pydantic.Field(discriminator="kind")
    others: list[Cat] = []
    labels: dict[str, str] = {}
    counts: dict[Color, int] = {}
    more: dict[str, Any] | None = None
    pair: tuple[int, str] = (1, "a")
    when: datetime.datetime | None = None
    lasts: datetime.timedelta | None = None
    key: uuid.UUID | None = None
    secret: pydantic.SecretStr = pydantic.SecretStr("")


# As zod 3 with zod-to-json-schema, zod 4 (z.toJSONSchema), and OpenAPI generators write them.
WRITTEN = [
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where"},
            "url": {"type": "string", "format": "uri"},
            "depth": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "mode": {"type": "string", "enum": ["r", "w"]},
            "tags": {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["path", "url"],
        "additionalProperties": False,
    },
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
            "names": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "null"}},
            "shape": {
                "oneOf": [
                    {"type": "object", "properties": {"t": {"type": "string", "const": "c"}, "r": {"type": "number"}},
                     "required": ["t", "r"], "additionalProperties": False},
                    {"type": "object", "properties": {"t": {"type": "string", "const": "s"}}, "required": ["t"]},
                ]
            },
        },
        "required": ["n", "names", "shape"],
        "additionalProperties": False,
    },
    {
        "type": "object",
        "x-order": 1,
        "properties": {
            "a": {"type": "integer", "format": "int32"},
            "b": {"type": "integer", "format": "int64", "minimum": 0},
            "c": {"type": "number", "format": "double"},
            "d": {"type": "string", "format": "password", "minLength": 2},
            "e": {"oneOf": [{"const": "x", "title": "X"}, {"const": "y"}, {"type": "null"}]},
        },
        "required": ["a", "b", "c", "d", "e"],
    },
    {"type": "object", "properties": {}},
]  # fmt: skip


@pytest.mark.parametrize("number", range(1 + len(WRITTEN)))
def test_every_answer_fits(number):
    schema = [Search.model_json_schema(), *WRITTEN][number]
    rng = random.Random(number)
    for text in walks(schema_pattern(schema), 20, rng):
        check(schema, text)


def test_a_model_accepts_what_its_schema_lets_through():
    for text in walks(schema_pattern(Search.model_json_schema()), 10, random.Random(1)):
        Search.model_validate_json(text)


EXAMPLES = [
    ({"type": "object", "properties": {}}, ["{}"], ['{"a":1}']),
    ({"type": "object", "properties": {}, "additionalProperties": True}, ["{}", '{"a":1}'], ["1"]),
    ({"type": "object", "propertyNames": {"enum": ["a", "b"]}}, ["{}", '{"b":{}}'], ['{"c":1}']),
    ({"type": "integer", "format": "int32"}, ["2147483647", "-2147483648"], ["2147483648"]),
    ({"type": "integer", "format": "int64", "minimum": 3}, ["3", "9223372036854775807"], ["2", "9223372036854775808"]),
    ({"oneOf": [{"type": "string"}, {"type": "null"}]}, ['"a"', "null"], ["1"]),
    ({"oneOf": [{"enum": ["a", 1]}, {"const": "b"}]}, ['"a"', "1", '"b"'], ["true"]),
    (
        {
            "$defs": {
                name: {"type": "object", "properties": {"k": {"const": name}, "v": {"type": "integer"}}}
                for name in ("a", "b")
            },
            "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        },
        ['{"k":"a"}', '{"k":"b","v":1}'],
        ["{}", '{"v":1}'],
    ),
    ({"type": "string", "format": "duration"}, ['"P1DT2H"', '"PT5M"', '"P3W"'], ['"P"', '"PT"', '"P1"']),
    ({"type": "string", "format": "ipv6"}, ['"0:0:0:0:0:0:0:1"'], ['"::1"']),
    ({"type": "string", "format": "uri"}, ['"https://a.example/b?c=d"', '"http://localhost:8000"'], ['"a"', '"//a"']),
    ({"type": "string", "format": "path", "maxLength": 2}, ['"/a"'], ['"/ab"']),
]


@pytest.mark.parametrize(("schema", "good", "bad"), EXAMPLES)
def test_examples(schema, good, bad):
    pattern = re.compile(schema_pattern(schema))
    assert [text for text in good if not pattern.fullmatch(text)] == []
    assert [text for text in bad if pattern.fullmatch(text)] == []
    for text in good:
        check(schema, text)


THING = {"type": "object", "properties": {"k": {"type": "string"}}}
REFUSED = [
    ({"oneOf": [{"type": "string"}, {"type": ["string", "null"]}]}, "numbers 0 and 1 could both fit"),
    ({"oneOf": [THING, THING]}, "could both fit"),
    ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "could both fit"),
    ({"oneOf": [{"const": 1}, {"enum": [1.0, 2]}]}, "could both fit"),
    ({"oneOf": [{"properties": {"k": {"const": "a"}}}, {"properties": {"k": {"const": "b"}}}]}, "could both fit"),
    ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "oneOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}, "recursive"),
    ({"oneOf": []}, "list of schemas"),
    ({"type": "number", "format": "int32"}, "for integers"),
    ({"type": "integer", "format": "date"}, "not supported"),
    ({"type": "object", "propertyNames": {"type": "integer"}}, "schema of a string"),
    ({"type": "object", "propertyNames": {}, "properties": {"a": {}}}, "beside 'properties'"),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED)
def test_what_cannot_be_enforced_is_named(schema, said):
    with pytest.raises(UnsupportedValueError, match=re.escape(said)):
        schema_pattern(json.loads(json.dumps(schema)))

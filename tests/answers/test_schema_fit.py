"""A bounded check of schemas, held against a complete one."""

from __future__ import annotations

import time

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.answers.schema_fit import breaks

numbers = st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -1.5])
scalars = st.none() | st.booleans() | numbers | st.text("ab", max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)
kinds = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
sizes = st.integers(0, 2)


def objects(inner):
    """Schemas of the keywords that are judged in full."""
    optional = {
        "type": kinds | st.lists(kinds, min_size=1, max_size=3, unique=True),
        "enum": st.lists(scalars, min_size=1, max_size=3), "const": scalars,
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3), "additionalProperties": inner,
        "items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2), "minItems": sizes, "maxItems": sizes,
        "minLength": sizes, "maxLength": sizes, "minProperties": sizes, "maxProperties": sizes,
        "minimum": numbers, "maximum": numbers, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers,
        "anyOf": st.lists(inner, min_size=1, max_size=2), "allOf": st.lists(inner, min_size=1, max_size=2),
    }  # fmt: skip
    return st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: optional[name] for name in names})
    )


schemas = st.recursive(st.booleans() | st.just({}), objects, max_leaves=6)
more = {"pattern": "^a", "format": "date", "not": {"type": "string"}, "uniqueItems": True, "multipleOf": 2}


def fits(value, schema) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(value)


@settings(max_examples=200, deadline=None)
@given(values, schemas)
def test_it_says_what_a_complete_one_says(value, schema):
    assert breaks(value, schema) != fits(value, schema)


@settings(max_examples=100, deadline=None)
@given(values, schemas, st.dictionaries(st.sampled_from(sorted(more)), st.none(), min_size=1), st.booleans())
def test_it_never_cries_wolf(value, schema, names, one_of):
    """With keywords that it does not judge."""
    whole = {"allOf": [schema, {name: more[name] for name in names}]}
    whole = {"oneOf": [whole, schema]} if one_of else whole
    if breaks(value, whole):
        assert not fits(value, whole)


POINT = {"$defs": {"n/a": {"type": "number"}}, "properties": {"x": {"$ref": "#/$defs/n~1a"}}, "required": ["x"]}


@pytest.mark.parametrize(("value", "broken"), [({"x": 1}, False), ({"x": "1"}, True), ({}, True), ([], False)])
def test_references(value, broken):
    assert breaks(value, POINT) == broken


@pytest.mark.parametrize("schema", [
    {"$ref": "#/nowhere"}, {"$ref": "https://example.org"}, {"$ref": 5}, {"$ref": "#"}, {"required": 5}, {"type": 7},
    {"properties": [], "items": 3, "enum": "no", "minLength": "2", "minimum": True}, None, 3, "x",
])  # fmt: skip
def test_schemas_that_are_none_say_nothing(schema):
    assert not breaks({"a": ["b", 2]}, schema)


def test_work_is_bounded():
    branches: dict = {"type": "string"}
    for _ in range(40):
        branches = {"anyOf": [branches, {"allOf": [branches, branches]}]}
    begun = time.perf_counter()
    breaks([[1]] * 1000, {"items": {"items": branches}})
    assert time.perf_counter() - begun < 0.5

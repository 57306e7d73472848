"""Schemas as expressions: whatever an automaton lets through fits the schema; what cannot be enforced is named."""

from __future__ import annotations

import itertools
import json
import random
import re
import tracemalloc

import pytest

from tests.constraints.schemas import check, random_schema
from unmask.constraints.build import ConstraintError, build
from unmask.constraints.json_schema import schema_pattern
from unmask.constraints.numbers import integers, numbers
from unmask.errors import UnsupportedValueError

CHARACTERS = {bytes([byte]): [byte] for byte in range(1, 256)}


def walks(pattern, count, rng):
    """Random texts that the automaton of ``pattern`` over single bytes accepts."""
    made = build(pattern, CHARACTERS, 257, (256,))
    for _ in range(count):
        state, text = made.start, b""
        while True:
            ahead = made.next_states[state]
            kinds = [kind for kind in range(1, made.classes) if ahead[kind] >= 0]
            if len(text) > 40:  # then the nearest way out
                kinds = [min(kinds, key=lambda kind: made.distance[ahead[kind]] - (kind == made.end_class))]
            kind = rng.choice(kinds)
            if kind == made.end_class:
                break
            text += bytes([rng.choice([byte for byte in range(256) if made.class_of[byte] == kind])])
            state = ahead[kind]
        yield text.decode()


@pytest.mark.parametrize("seed", range(40))
def test_every_answer_fits_its_schema(seed):
    rng = random.Random(seed)
    schema = random_schema(rng)
    for text in walks(schema_pattern(schema), 10, rng):
        check(schema, text)


def test_any_object():
    rng = random.Random(1)
    texts = list(walks(schema_pattern({"type": "object"}), 30, rng))
    assert all(isinstance(json.loads(text), dict) for text in texts)
    assert len(set(texts)) > 10


def record(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


EXAMPLES = [
    (
        record(a={"type": "integer"}, b={"type": "null"}),
        ["{}", '{"a": 1}', '{"b":null}', '{"a":-2, "b": null}'],
        ['{"b":null,"a":1}', '{"a":1,}', "{ }", '{"a":  1}'],
    ),
    (
        record(["b"], a={"const": 1}, b={"const": 2}, c={"const": 3}),
        ['{"b":2}', '{"a":1,"b":2}', '{"b":2,"c":3}', '{"a":1,"b":2,"c":3}'],
        ["{}", '{"a":1}', '{"a":1,"c":3}'],
    ),
    (
        {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
        ["[true]", "[true, false]"],
        ["[]", "[true,true,true]"],
    ),
    (
        {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 1},
        ["[1]", "[1,2]"],
        ["[]", "[2]", "[1,2,3]"],
    ),
    ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
    ({"type": "string", "maxLength": 3}, ['""', '"abc"', r'"\"\\\n"'], ['"abcd"', '"\n"']),
    ({"enum": ["a.b", 1, None]}, ['"a.b"', "1", "null"], ['"axb"', "2"]),
    ({"type": ["integer", "null"], "minimum": 3}, ["3", "40", "null"], ["2", "-5", "03"]),
    (
        {"$defs": {"p": {"type": "boolean"}}, "anyOf": [{"$ref": "#/$defs/p"}, {"type": "null"}]},
        ["true", "null"],
        ["1"],
    ),
    ({"properties": {"a": {"const": 1}}, "required": ["a"]}, ['{"a":1}'], ["1"]),
    ({"type": "string", "format": "date"}, ['"2024-02-28"'], ['"2024-02-30"', '"2024-13-01"', '"0000-01-01"']),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, ["{}", '{"k": 1,"l":2}'], ['{"k":"v"}']),
]


@pytest.mark.parametrize(("schema", "good", "bad"), EXAMPLES)
def test_examples(schema, good, bad):
    pattern = re.compile(schema_pattern(schema))
    assert [text for text in good if not pattern.fullmatch(text)] == []
    assert [text for text in bad if pattern.fullmatch(text)] == []


REFUSED = [
    ({"not": {"type": "null"}}, "not"),
    ({"type": "array", "uniqueItems": True}, "uniqueItems"),
    ({"type": "integer", "multipleOf": 3}, "multipleOf"),
    ({"type": "number", "minimum": 0.5}, "whole numbers"),
    ({"type": "object", "patternProperties": {}}, "patternProperties"),
    ({"type": "object", "properties": {"a": {"not": {}}}}, "#/properties/a"),
    ({"type": "object", "required": ["a"]}, "not among"),
    ({"$ref": "#"}, "recursive"),
    ({"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}, "recursive"),
    ({"$ref": "#/$defs/none"}, "leads nowhere"),
    ({"$ref": "https://example.com/s"}, "not in this schema"),
    ({"anyOf": [{"type": "null"}], "minimum": 1}, "minimum"),
    ({"type": "string", "pattern": "(?=a)"}, "not supported"),
    ({"type": "string", "pattern": 'a"'}, "quotes"),
    ({"type": "string", "pattern": "a^b"}, "not supported"),
    ({"type": "string", "format": "regex"}, "regex"),
    ({"type": "string", "format": []}, "[] is not supported"),
    ({"type": "string", "pattern": "a)|(b"}, "brackets"),
    ({"type": "string", "pattern": "(a"}, "brackets"),
    ({"type": "string", "format": "date", "maxLength": 3}, "combined"),
    ({"type": "text"}, "text"),
    ({"minimum": 1}, "type"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "no integer"),
    (False, "allows nothing"),
    (3, "not a schema"),
    ({1, 2}, "no JSON"),
    ({"const": float("nan")}, "no JSON"),
    ({"type": "integer", "minimum": 10**30}, "at most"),
    ({"type": "object", "properties": {str(n): {} for n in range(400)}}, "becomes longer"),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED)
def test_what_cannot_be_enforced_is_named(schema, said):
    with pytest.raises(UnsupportedValueError, match=re.escape(said)) as error:
        schema_pattern(schema)
    assert error.value.param == "json_schema"


def test_deep_and_wide_schemas_are_refused_quickly():
    deep: dict = {"type": "null"}
    for _ in range(900):
        deep = {"type": "array", "items": deep}
    fan = {"$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(50)}}
    fan["$defs"]["50"] = {"type": "null"}
    with pytest.raises(UnsupportedValueError, match="nests"):
        schema_pattern(deep)
    with pytest.raises(UnsupportedValueError, match="nests"):
        schema_pattern(fan | {"$ref": "#/$defs/0"})
    assert schema_pattern(fan | {"$ref": "#/$defs/30"}).count("null") == 1


LARGE = {"enum": [f"{number:0200}" for number in range(1200)]}
REPEATED = {
    "properties": {"type": "object", "properties": {str(n): {"$ref": "#/$defs/large"} for n in range(2000)}},
    "prefixItems": {"type": "array", "prefixItems": [{"$ref": "#/$defs/large"}] * 2000},
    "anyOf": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/large"}, "minItems": n} for n in range(2000)]},
}


@pytest.mark.parametrize("keyword", REPEATED)
def test_a_large_schema_that_is_repeated_is_refused_before_it_takes_memory(keyword):
    tracemalloc.start()
    try:
        with pytest.raises(UnsupportedValueError, match="becomes longer"):
            schema_pattern({"$defs": {"large": LARGE}, **REPEATED[keyword]})
        assert tracemalloc.get_traced_memory()[1] < 2**24  # written out it is 480 MB
    finally:
        tracemalloc.stop()


def test_a_dash_after_a_dash_is_a_dash():
    texts = set(walks(schema_pattern({"type": "string", "pattern": "[+--]"}), 60, random.Random(1)))
    assert texts == {'"+"', '","', '"-"'}
    with pytest.raises(ConstraintError):  # from a down to a dash, not: a less b
        build(schema_pattern({"type": "string", "pattern": "[a--b]"}), CHARACTERS, 257, (256,))


def test_integers_within_bounds():
    ends = [None, *range(-12, 13), -130, -99, -100, 99, 100, 101, 130, 1005]
    values = [*range(-140, 141), 999, 1000, 1005, 1006, -1000]
    for low, high in itertools.product(ends, ends):
        pattern = integers(low, high)
        fitting = [v for v in values if (low is None or v >= low) and (high is None or v <= high)]
        if pattern is None:
            assert low > high
            continue
        found = [v for v in values if re.fullmatch(pattern, str(v))]
        assert found == fitting, (low, high)


def test_numbers_within_bounds():
    values = [
        sign + text
        for text in ("0", "0.5", "1", "1.0", "1.01", "2", "2.75", "9", "9.9", "10", "11.5", "100")
        for sign in ("", "-")
    ]
    ends = [None, -11, -10, -2, -1, 0, 1, 2, 9, 10]
    for low, high, above, below in itertools.product(ends, ends, [False, True], [False, True]):
        pattern = numbers(low, high, above=above, below=below)
        fitting = [
            v for v in values
            if (low is None or float(v) > low or (float(v) == low and not above))
            and (high is None or float(v) < high or (float(v) == high and not below))
        ]  # fmt: skip
        found = [v for v in values if pattern is not None and re.fullmatch(pattern, v)]
        assert set(found) <= set(fitting), (low, high, above, below)
        missed = {v for v in fitting if v not in found}
        assert missed <= {"-0", "0"}, (low, high, above, below, missed)

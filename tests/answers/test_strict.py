"""Strict tools: an answer is any text that begins no call, or calls that fit; never a call that does not."""

from __future__ import annotations

import json
import random
import re

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.answers.reading import GEMMA4, QWEN, build, read
from tests.constraints.test_json_schema import walks
from unmask.answers.strict import auto_pattern, text_without
from unmask.answers.syntax import NO_SYNTAX
from unmask.answers.tools import Tool
from unmask.errors import UnsupportedValueError

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
STRICT = Tool("roll", parameters=SCHEMA, strict=True)
LOOSE = Tool("say", parameters={"type": "object"})
CALL = '<tool_call>\n{"name": "roll", "arguments": {"n": 3}}\n</tool_call>'
MARKERS = ("<tool_call>", "</tool_call>")


@pytest.mark.parametrize("marker", MARKERS)
@settings(deadline=None)
@given(st.data())
def test_text_without_a_marker(marker, data):
    starts = [marker[:n] for n in range(1, len(marker) + 1)]
    pieces = st.one_of(st.sampled_from(starts), st.text("<to>/\né😀", max_size=1))
    text = "".join(data.draw(st.lists(pieces, max_size=6)))
    assert bool(re.fullmatch(text_without(marker), text)) == (marker not in text)


def test_answers():
    pattern = re.compile(auto_pattern([STRICT, LOOSE], QWEN, ()))
    say = '<tool_call>\n{"name": "say", "arguments": {"deep": [[[[{}]]]]}}\n</tool_call>'
    for good in (
        "",
        "Hi <there>\n",
        "<tool_cal",
        CALL,
        f"One moment.\n{CALL}\n{CALL}",
        f"<think>x</think>{say}{CALL} y",
    ):
        assert pattern.fullmatch(good), good
    for bad in (
        CALL.replace("3", "30"),
        CALL.replace("roll", "run"),
        CALL.removesuffix("</tool_call>"),
        "<tool_call>",
        f"{CALL}<tool_call> x",
        '<tool_call>\n{"name": "say"}\n</tool_call>',
    ):
        assert not pattern.fullmatch(bad), bad


def test_whatever_is_let_through_is_read_as_fitting_calls():
    pattern = auto_pattern([STRICT], QWEN, ())
    # A walk over single bytes would hardly ever begin a call by itself: this one begins with one.
    _, marker, rest = pattern.removesuffix("*").partition("<tool_call>")
    for text in walks(f"(?:{marker}{rest}", 30, random.Random(1)):
        content, _, [(name, arguments)] = build(read(text, QWEN))
        assert name == "roll"
        jsonschema.validate(json.loads(arguments), SCHEMA)
        assert "<tool_call>" not in content


def test_not_for_all():
    assert auto_pattern([LOOSE], QWEN, MARKERS) is None
    for syntax, tokens in ((GEMMA4, ()), (NO_SYNTAX, ()), (QWEN, MARKERS)):
        with pytest.raises(UnsupportedValueError, match="special tokens") as error:
            auto_pattern([STRICT, LOOSE], syntax, tokens)
        assert error.value.param == "tools"

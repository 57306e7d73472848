"""Calls as models write them, made of random arguments, are read back as those."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.answers.reading import GEMMA4, QWEN, build, read

KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_ .-]{0,6}[a-z0-9]", fullmatch=True)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
    st.sampled_from(["</tool_call>", "\n</tool_call>", "<tool_call>", "<think>", '"', "\\", "}", "]", "call:f{", "\n"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["f", "get-it", "a_1"]), st.dictionaries(KEYS, VALUES, max_size=3)), max_size=3
)


def json_call(name, arguments, how):
    call = {"name": name, "arguments": arguments}
    if how.get("reversed"):
        call = dict(reversed(call.items()))
    written = json.dumps(call, ensure_ascii=how.get("ascii", False), indent=how.get("indent"))
    return f"<tool_call>\n{written}\n</tool_call>"


def gemma_value(value):
    match value:
        case dict():
            return f"{{{','.join(f'{key}:{gemma_value(one)}' for key, one in value.items())}}}"
        case list():
            return f"[{','.join(map(gemma_value, value))}]"
        case str():
            return f'<|"|>{value}<|"|>'
    return json.dumps(value)


def found(text, syntax, size):
    content, reasoning, calls = build(read(text, syntax, range(size, len(text), size)))
    return content, reasoning, [(name, json.loads(arguments)) for name, arguments in calls]


@settings(deadline=None)
@given(
    CALLS,
    st.fixed_dictionaries({"reversed": st.booleans(), "ascii": st.booleans(), "indent": st.sampled_from([None, 1])}),
    st.integers(1, 40),
)
def test_hermes(calls, how, size):
    text = "".join(json_call(name, arguments, how) for name, arguments in calls)
    assert found(f"<think>\nhm\n</think>\n\nWell.\n{text}", QWEN, size) == ("Well." + "\n" * (not calls), "hm", calls)


@settings(deadline=None)
@given(CALLS, st.integers(1, 40))
def test_gemma(calls, size):
    text = "".join(f"<|tool_call>call:{name}{gemma_value(arguments)}<tool_call|>" for name, arguments in calls)
    assert found(f"<|channel>thought\nhm\n<channel|>Well.{text}", GEMMA4, size) == ("Well.", "hm", calls)

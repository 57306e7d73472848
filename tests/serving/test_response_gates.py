"""What responses do not serve is refused by name, and what clients send by habit passes."""

from __future__ import annotations

import pytest

from tests.conformance.vendor_schemas import check
from tests.serving.responses import LOGPROBS, SUM, WEATHER


@pytest.mark.parametrize(
    "query", [{"stream": "true"}, {"include": LOGPROBS}, {"starting_after": "3"}, {"nonsense": "1"}]
)
async def test_queries_of_a_retrieval_are_refused_by_name(http, query):
    async with http.get("/v1/responses/resp_1", params=query) as response:
        assert response.status == 400
        assert (await response.json())["error"]["param"] == next(iter(query))


def item(**fields) -> dict:
    return {"input": [{"role": "user", "content": SUM} | fields]}


PART = {"type": "input_text", "text": "x"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}

REFUSED = [
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": 5}, "input"),
    (item(role="tool"), "input[0].role"),
    (item(content=None), "input[0].content"),
    (item(phase="commentary"), "input[0].phase"),
    (item(colour="red"), "input[0].colour"),
    (item(content=[PART | {"type": "input_image"}]), "input[0].content[0].type"),
    (item(content=[PART | {"type": "output_text"}]), "input[0].content[0].type"),
    (item(type="web_search_call"), "input[0].type"),
    ({"input": [{"type": None}]}, "input[0].type"),
    ({"input": [{"type": []}]}, "input[0].type"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, "input[0].call_id"),
    ({"input": [CALL | {"arguments": "[]"}]}, "input[0].arguments"),
    ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}, "input[0].encrypted_content"),
    ({"background": True}, "background"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"include": ["reasoning.encrypted_content"]}, "include[0]"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": 10**9}, "max_output_tokens"),
    ({"max_tokens": 5}, "max_tokens"),
    ({"max_tool_calls": 1}, "max_tool_calls"),
    ({"messages": []}, "messages"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    ({"moderation": {"model": "x"}}, "moderation"),
    ({"n": 2}, "n"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"reasoning": {"effort": "low"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "concise"}}, "reasoning.summary"),
    ({"rule": "d2f"}, "rule"),
    ({"service_tier": "flex"}, "service_tier"),
    ({"stream_options": {"include_obfuscation": False}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": True}}, "stream_options.include_usage"),
    ({"temperature": -1}, "temperature"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"text": {"format": {"type": "json_object", "name": "x"}}}, "text.format.name"),
    ({"text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "wall"}}}}, "text.format"),
    ({"text": {"format": {"type": "json_object"}}, "unmask": {"json_schema": {}}}, "unmask.json_schema"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    ({"tools": [WEATHER | {"defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "name": "g"}}, "tool_choice.type"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"top_logprobs": 21, "include": [LOGPROBS]}, "top_logprobs"),
    ({"truncation": "auto"}, "truncation"),
    ({"unmask": {"canvas": "frames"}}, "unmask.canvas"),
    ({"unmask": {"rule": "nonsense"}}, "unmask.rule"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
async def test_what_is_not_served_is_refused_by_name(http, fields, param):
    async with http.post("/v1/responses", json={"input": SUM} | fields) as response:
        assert response.status == 400
        body = await response.json()
    check(body, "ErrorResponse")
    assert body["error"]["param"] == param


async def test_harmless_defaults_pass(http):
    body = {
        "input": SUM,
        "background": False,
        "include": [],
        "parallel_tool_calls": True,
        "prompt_cache_key": "k",
        "reasoning": {"summary": "auto"},
        "safety_identifier": "s",
        "service_tier": "auto",
        "stream": False,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "truncation": "disabled",
    }
    async with http.post("/v1/responses", json=body) as response:
        assert response.status == 200

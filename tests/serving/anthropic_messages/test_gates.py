"""Every field of messages is honoured or refused by name; conversations become what templates take."""

from __future__ import annotations

import re

import pytest
from pydantic import TypeAdapter

from tests.conftest import ROOT
from unmask.errors import UnmaskError
from unmask.serving.dialects.anthropic_messages.blocks import Messages
from unmask.serving.dialects.anthropic_messages.conversation import parse_conversation
from unmask.serving.dialects.anthropic_messages.wire import MessagesRequest
from unmask.serving.wire import Only

BODY = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
TOOL = {"name": "f", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}


def asked(*blocks, role="user") -> dict:
    return {"messages": [{"role": role, "content": list(blocks)}]}


UNSUPPORTED = [
    ({"billing_policy": {}}, "billing_policy"),
    ({"compaction": {}}, "compaction"),
    ({"container": "c"}, "container"),
    ({"context_management": {"edits": []}}, "context_management"),
    ({"diagnostics": {}}, "diagnostics"),
    ({"fallback_credit_token": "x"}, "fallback_credit_token"),
    ({"fallbacks": [{}]}, "fallbacks"),
    ({"inference_geo": "eu"}, "inference_geo"),
    ({"mcp_servers": [{}]}, "mcp_servers"),
    ({"service_tier": "priority"}, "service_tier"),
    ({"speed": "fast"}, "speed"),
    ({"thread": {}}, "thread"),
    ({"user_profile_id": "u"}, "user_profile_id"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking"),
    ({"thinking": {"type": "between_tools"}}, "thinking.type"),
    ({"thinking": {"type": "adaptive", "display": "omitted"}}, "thinking.display"),
    ({"output_config": {"effort": "low"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "wat"}}}}, "output_config.format.schema"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
    ({"tools": [TOOL | {"defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tools": [TOOL | {"input_examples": [{}]}]}, "tools[0].input_examples"),
    (asked({"type": "image", "source": {"type": "url", "url": "x"}}), "messages[0].content[0].type"),
    (asked({"type": "redacted_thinking", "data": "x"}, role="assistant"), "messages[0].content[0].type"),
    (asked({"type": "text", "text": "x", "citations": [{}]}), "messages[0].content[0].citations"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"messages": [*BODY["messages"], {"role": "assistant", "content": [USE]}]}, "messages"),
]  # fmt: skip

INVALID = [
    ({"max_tokens": None}, "max_tokens"),
    ({"tools": [TOOL | {"input_schema": {"type": "array"}}]}, "tools[0].input_schema"),
    ({"max_tokens": "1"}, "max_tokens"),
    ({"messages": []}, "messages"),
    ({"stop_sequences": ["x"] * 17}, "stop_sequences"),
    ({"stop_sequences": [""]}, "stop_sequences[0]"),
    ({"temperature": -1.0}, "temperature"),
    ({"top_k": -5}, "top_k"),
    ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tools": [TOOL, TOOL | {"name": "g", "input_schema": {"type": "array"}}]}, "tools[1].input_schema"),
    ({"tools": [TOOL | {"name": "a b"}]}, "tools[0].name"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "auto", "name": "f"}}, "tool_choice.name"),
    ({"thinking": {"type": "disabled", "budget_tokens": 1024}}, "thinking.budget_tokens"),
    ({"unmask": {"canvas": "frames"}}, "unmask.canvas"),
    ({"unmask": {"threshold": 2.0}}, "unmask.threshold"),
    (
        {
            "output_config": {"format": {"type": "json_schema", "schema": {"enum": ["a"]}}},
            "unmask": {"json_schema": {"enum": ["a"]}},
        },
        "unmask.json_schema",
    ),
    (
        {
            "output_config": {"format": {"type": "json_schema", "schema": {"enum": ["a"]}}},
            "output_format": {"type": "json_schema", "schema": {"enum": ["b"]}},
        },
        "output_format",
    ),
    (asked({"text": "x"}), "messages[0].content[0].type"),
    (asked(), "messages[0].content"),
    (asked(USE), "messages[0].content[0]"),
    (asked({"type": "thinking", "thinking": "x"}), "messages[0].content[0]"),
    (asked({"type": "tool_result", "tool_use_id": "t9"}), "messages[0].content[0].tool_use_id"),
]  # fmt: skip


async def refusal(http, body, path="/v1/messages"):
    async with http.post(path, json=body) as response:
        assert response.status == 400
        error = (await response.json())["error"]
    assert error["type"] == "invalid_request_error"
    *_, named = re.findall("[a-z_]+", error["param"])
    assert named in error["message"] or named == "thinking"
    return error["code"], error["param"]


@pytest.mark.parametrize(("fields", "param"), UNSUPPORTED)
async def test_what_cannot_be_honoured_is_named(http, fields, param):
    assert await refusal(http, BODY | fields) == ("unsupported_value", param)


@pytest.mark.parametrize(("fields", "param"), INVALID)
async def test_what_is_wrong_is_named(http, fields, param):
    body = {name: value for name, value in (BODY | fields).items() if value is not None}
    assert await refusal(http, body) == ("invalid_value", param)


@pytest.mark.parametrize("name", ["seed", "n", "response_format", "nope"])
async def test_what_is_unknown_is_named(http, name):
    assert await refusal(http, BODY | {name: 1}) == ("unknown_field", name)
    counted = {"messages": BODY["messages"], name: 1}
    assert await refusal(http, counted, "/v1/messages/count_tokens") == ("unknown_field", name)


async def test_what_clients_send_by_habit_passes(http):
    cached = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = BODY | {
        "system": [{"type": "text", "text": "Be brief.", **cached}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "citations": None, **cached}]}],
        "tools": [TOOL | cached | {"type": "custom", "strict": False, "allowed_callers": ["direct"]}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
        "stop_sequences": [],
        "mcp_servers": [],
        "service_tier": "auto",
        "speed": "standard",
        "metadata": {"user_id": None},
        **cached,
    }
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "prompt-caching-2024-07-31,nope", "x-api-key": "k"}
    async with http.post("/v1/messages?beta=true", json=body, headers=headers) as response:
        assert response.status == 200, await response.text()


async def test_an_unknown_path_below_has_the_envelope_too(http):
    async with http.get("/v1/messages/nope") as response:
        assert response.status == 404
        assert (await response.json())["error"]["type"] == "not_found_error"


def test_every_field_is_described():
    page = (ROOT / "docs" / "anthropic.md").read_text()
    honoured = [
        name
        for name, field in MessagesRequest.model_fields.items()
        if not any(isinstance(mark, Only) for mark in field.metadata)
    ]
    assert [name for name in honoured if f"`{name}" not in page] == []


def conversation(*messages, system=None):
    return parse_conversation(system, TypeAdapter(Messages).validate_python(list(messages)))


def test_blocks_become_turns_as_templates_know_them():
    text = {"type": "text", "text": "b"}
    turns, prefill = conversation(
        {"role": "user", "content": [{"type": "text", "text": "a"}, text]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, text, USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [text, text]}, text]},
        system="s",
    )
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert turns == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "ab"},
        {"role": "assistant", "content": "b", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "name": "f", "content": "bb"},
        {"role": "user", "content": "b"},
    ]
    assert prefill == ""


def test_turns_of_one_speaker_are_one():
    turns, prefill = conversation(
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": [USE]},
        {"role": "assistant", "content": [USE | {"id": "t2"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name} for name in ("t1", "t2")]},
        {"role": "system", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "assistant", "content": "e"},
    )
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool", "tool", "system"]
    assert turns[0]["content"] == "a\n\nb"
    assert [call["id"] for call in turns[1]["tool_calls"]] == ["t1", "t2"]
    assert prefill == "d\n\ne"


def test_reasoning_cannot_be_gone_on_with():
    with pytest.raises(UnmaskError, match="more than text"):
        conversation({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]})

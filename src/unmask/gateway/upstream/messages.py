"""A conversation as OpenAI's API has it, from the shape that chat templates take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from unmask.gateway.upstream.endpoint import UpstreamKind

_Open = list[tuple[str, str]]  # calls without a result yet: their ids and names


def openai_messages(messages: Sequence[dict[str, Any]], kind: UpstreamKind) -> list[dict[str, Any]]:
    """``messages`` for a lane of ``kind``: arguments of calls as JSON text, and every call and result with its id.

    Dialects whose calls have no ids tell by order and name which call a result belongs to. A server that is not one of
    the known engines is told neither earlier reasoning nor a result's name, for which OpenAI's API has no field.
    """
    calls: _Open = []
    made = 0
    converted = []
    for message in messages:
        turn = {key: value for key, value in message.items() if _kept(key, value, message["role"], kind)}
        if "tool_calls" in message:
            turn["tool_calls"] = [_call(call, f"call_{made + n}") for n, call in enumerate(message["tool_calls"])]
            made += len(turn["tool_calls"])
            calls += [(call["id"], call["function"]["name"]) for call in turn["tool_calls"]]
        elif message["role"] == "tool":
            turn["tool_call_id"] = _answered(message, calls)
        converted.append(turn)
    return converted


def _kept(key: str, value: Any, role: str, kind: UpstreamKind) -> bool:
    if key == "name" and not value:
        return False
    return kind != "remote" or (key != "reasoning_content" and (key, role) != ("name", "tool"))


def _call(call: dict[str, Any], own_id: str) -> dict[str, Any]:
    function = call["function"]
    arguments = msgspec.json.encode(function["arguments"]).decode()
    return {
        "id": call.get("id") or own_id,
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _answered(message: dict[str, Any], calls: _Open) -> str:
    """The id of the call that ``message`` is the result of, which is open no more."""
    told, name = message.get("tool_call_id"), message.get("name")
    by_id = (call for call in calls if call[0] == told)
    by_name = (call for call in calls if not told and name in ("", None, call[1]))
    found = next(by_id, None) or next(by_name, None)
    if found is not None:
        calls.remove(found)
        return found[0]
    return told or "call"

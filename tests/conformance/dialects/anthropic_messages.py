"""Anthropic messages."""

from __future__ import annotations

import json

from tests.conformance.cases import MODEL, Case, Turn
from tests.conformance.dialects.base import Answer, Body, Dialect, calls_of, present


def put(case: Case) -> Body:
    form = {"format": {"type": "json_schema", "schema": case.schema}}
    return present(
        model=MODEL,
        system="".join(turn.content for turn in case.turns if turn.role == "system") or None,
        messages=[_message(turn) for turn in case.turns if turn.role != "system"],
        max_tokens=case.max_tokens,
        temperature=0,
        stop_sequences=[case.stop] if case.stop else None,
        output_config=case.schema and form,
        tools=[
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in case.tools
        ],
        tool_choice=_choice(case.choice) if case.choice else None,
        unmask=case.unmask,
    )


def _message(turn: Turn) -> Body:
    if turn.role == "tool":
        result = {"type": "tool_result", "tool_use_id": turn.answers, "content": turn.content}
        return {"role": "user", "content": [result]}
    if not turn.calls:
        return {"role": turn.role, "content": turn.content}
    text = [{"type": "text", "text": turn.content}] if turn.content else []
    calls = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in turn.calls]
    return {"role": turn.role, "content": [*text, *calls]}


def _choice(choice: str) -> Body:
    return {"type": "any"} if choice == "required" else {"type": "tool", "name": choice}


def read(body: Body) -> Answer:
    blocks = body["content"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    return Answer(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        finish=body["stop_reason"],
        usage=(body["usage"]["input_tokens"], body["usage"]["output_tokens"]),
        reasoning="".join(block["thinking"] for block in blocks if block["type"] == "thinking"),
        calls=calls_of([(call["name"], json.dumps(call["input"])) for call in calls]),
    )


MESSAGES = Dialect(
    "messages",
    "/v1/messages",
    "anthropic_messages",
    put,
    read,
    finishes={
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "stop string": "stop_sequence",
    },
)

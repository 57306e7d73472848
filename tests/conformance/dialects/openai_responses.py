"""OpenAI responses."""

from __future__ import annotations

import json

from tests.conformance.cases import MODEL, Case, Turn
from tests.conformance.dialects.base import Answer, Body, Dialect, calls_of, present


def put(case: Case) -> Body:
    """``stop`` is no field of this API, but of ours."""
    form = {"format": {"type": "json_schema", "name": "wanted", "schema": case.schema, "strict": True}}
    return present(
        model=MODEL,
        input=[item for turn in case.turns for item in _items(turn)],
        max_output_tokens=case.max_tokens,
        temperature=0,
        stop=case.stop,
        text=case.schema and form,
        tools=[
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in case.tools
        ],
        tool_choice=_choice(case.choice) if case.choice else None,
        unmask=case.unmask,
        store=False,
    )


def _items(turn: Turn) -> list[Body]:
    if turn.role == "tool":
        return [{"type": "function_call_output", "call_id": turn.answers, "output": turn.content}]
    calls = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": json.dumps(call.arguments)}
        for call in turn.calls
    ]
    return calls if calls and not turn.content else [{"role": turn.role, "content": turn.content}, *calls]


def _choice(choice: str) -> str | Body:
    return choice if choice == "required" else {"type": "function", "name": choice}


def read(body: Body) -> Answer:
    items = body["output"]
    parts = [part for item in items if item["type"] == "message" for part in item["content"]]
    thoughts = [part for item in items if item["type"] == "reasoning" for part in item.get("content") or ()]
    counts = body["usage"]
    assert counts["total_tokens"] == counts["input_tokens"] + counts["output_tokens"]
    return Answer(
        text="".join(part["text"] for part in parts),
        finish=finish(body),
        usage=(counts["input_tokens"], counts["output_tokens"]),
        reasoning="".join(part["text"] for part in thoughts),
        calls=calls_of([(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]),
    )


def finish(body: Body) -> str:
    details = body.get("incomplete_details") or {}
    return details.get("reason") or body["status"]


RESPONSES = Dialect(
    "responses",
    "/v1/responses",
    "openai_responses",
    put,
    read,
    finishes={
        "stop": "completed",
        "stop string": "completed",
        "tool_calls": "completed",
        "length": "max_output_tokens",
    },
)

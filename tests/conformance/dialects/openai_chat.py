"""OpenAI chat completions."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.cases import MODEL, Case, Tool, Turn
from tests.conformance.dialects.base import Answer, Body, Dialect, calls_of, present


def put(case: Case) -> Body:
    return present(
        model=MODEL,
        messages=[message(turn) for turn in case.turns],
        max_tokens=case.max_tokens,
        temperature=0,
        stop=case.stop,
        response_format=case.schema and response_format(case.schema),
        tools=[{"type": "function", "function": function(tool)} for tool in case.tools],
        tool_choice=case.choice and _choice(case.choice),
        unmask=case.unmask,
    )


def message(turn: Turn) -> Body:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for call in turn.calls
    ]
    return {"content": turn.content} | present(role=turn.role, tool_calls=calls, tool_call_id=turn.answers or None)


def function(tool: Tool) -> Body:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def response_format(schema: dict[str, Any]) -> Body:
    return {"type": "json_schema", "json_schema": {"name": "wanted", "schema": schema, "strict": True}}


def _choice(choice: str) -> str | Body:
    return choice if choice == "required" else {"type": "function", "function": {"name": choice}}


def read(body: Body) -> Answer:
    (choice,) = body["choices"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return Answer(
        text=message["content"] or "",
        finish=choice["finish_reason"],
        usage=usage(body),
        reasoning=message.get("reasoning_content") or "",
        calls=calls_of([(call["name"], call["arguments"]) for call in calls]),
    )


def usage(body: Body) -> tuple[int, int]:
    counts = body["usage"]
    assert counts["total_tokens"] == counts["prompt_tokens"] + counts["completion_tokens"]
    return counts["prompt_tokens"], counts["completion_tokens"]


STREAMS: Body = {"usage_options": {"stream_options": {"include_usage": True}}, "done": "data: [DONE]"}

CHAT = Dialect("chat", "/v1/chat/completions", "openai_chat", put, read, **STREAMS)

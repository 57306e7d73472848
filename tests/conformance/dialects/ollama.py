"""Ollama chat and generate."""

from __future__ import annotations

import json

from tests.conformance.cases import MODEL, Case, Turn
from tests.conformance.dialects.base import Answer, Body, Dialect, calls_of, present


def put_chat(case: Case) -> Body | None:
    if case.choice:
        return None
    return _common(case) | present(
        messages=[_message(turn, case) for turn in case.turns],
        tools=[
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in case.tools
        ],
    )


def put_generate(case: Case) -> Body | None:
    return _common(case) | {"prompt": case.turns[0].content} if case.plain else None


def _common(case: Case) -> Body:
    options = present(num_predict=case.max_tokens, stop=[case.stop] if case.stop else None, unmask=case.unmask)
    return present(model=MODEL, stream=False, format=case.schema, options=options | {"temperature": 0})


def _message(turn: Turn, case: Case) -> Body:
    calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in turn.calls]
    names = {call.id: call.name for other in case.turns for call in other.calls}
    tool_name = names[turn.answers] if turn.answers else None
    return {"role": turn.role, "content": turn.content} | present(tool_calls=calls, tool_name=tool_name)


def read_chat(body: Body) -> Answer:
    message = body["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return Answer(
        text=message["content"],
        finish=body["done_reason"],
        usage=(body["prompt_eval_count"], body["eval_count"]),
        reasoning=message.get("thinking") or "",
        calls=calls_of([(call["name"], json.dumps(call["arguments"])) for call in calls]),
    )


def read_generate(body: Body) -> Answer:
    return Answer(
        text=body["response"],
        finish=body["done_reason"],
        usage=(body["prompt_eval_count"], body["eval_count"]),
        reasoning=body.get("thinking") or "",
    )


_FINISHES = {"tool_calls": "stop", "stop string": "stop"}
_OPTIONS = ("options", "unmask")

OLLAMA_CHAT = Dialect("ollama-chat", "/api/chat", "ollama", put_chat, read_chat, _FINISHES, _OPTIONS, has_codes=False)
OLLAMA_GENERATE = Dialect(
    "ollama-generate",
    "/api/generate",
    "ollama",
    put_generate,
    read_generate,
    _FINISHES,
    _OPTIONS,
    has_codes=False,
)

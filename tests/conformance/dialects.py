"""The wire APIs: where each is, how it puts a case, and what its whole answer says. Written from their own descriptions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tests.conformance.cases import CASES, MODEL, Case

Body = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A whole answer, in no dialect's words. ``usage``: prompt and completion tokens."""

    text: str
    finish: str
    usage: tuple[int, int]
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Dialect:
    """``put`` makes of a case the body of a request, None where this dialect cannot say it; ``read`` undoes an answer."""

    name: str
    path: str
    module: str
    put: Callable[[Case], Body | None]
    read: Callable[[Body], Answer]
    limit: str = "max_tokens"
    has_codes: bool = True

    @property
    def landed(self) -> bool:
        return find_spec(f"unmask.serving.dialects.{self.module}") is not None

    def body(self, case: Case) -> Body:
        body = self.put(case)
        assert body is not None
        return body

    def extended(self, body: Body, options: Body) -> Body:
        """``body`` with more options in its ``unmask`` object."""
        return body | {"unmask": body.get("unmask", {}) | options}

    def limited(self, body: Body, tokens: int) -> Body:
        """``body`` with another limit on the answer's tokens."""
        return body | {self.limit: tokens}

    def message(self, error: Body) -> str:
        """What an error body tells people."""
        return error["error"]["message"]

    @property
    def cases(self) -> list[Case]:
        return [case for case in CASES if self.put(case) is not None]

    def __str__(self) -> str:
        return self.name


def _present(**fields: Any) -> Body:
    """Fields that have a value: what is not asked for is not sent."""
    return {name: value for name, value in fields.items() if value not in (None, {}, [])}


def _turns(case: Case) -> list[Body]:
    return [{"role": role, "content": content} for role, content in case.messages]


def _json_schema(case: Case) -> Body:
    return _present(name="shelter" if case.schema else None, schema=case.schema)


def put_chat(case: Case) -> Body:
    form = {"type": "json_schema", "json_schema": _json_schema(case)} if case.schema else None
    return _present(
        model=MODEL,
        messages=_turns(case),
        max_tokens=case.max_tokens,
        temperature=0,
        stop=case.stop,
        response_format=form,
        unmask=case.unmask,
    )


def read_chat(body: Body) -> Answer:
    (choice,) = body["choices"]
    message = choice["message"]
    calls = tuple((call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or ())
    return Answer(
        message["content"] or "",
        choice["finish_reason"],
        _openai_usage(body),
        message.get("reasoning_content") or "",
        calls,
    )


def _openai_usage(body: Body) -> tuple[int, int]:
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return usage["prompt_tokens"], usage["completion_tokens"]


def put_completions(case: Case) -> Body | None:
    if case.question is None:
        return None
    form = {"type": "json_schema", "json_schema": _json_schema(case)} if case.schema else None
    return _present(
        model=MODEL,
        prompt=case.question,
        max_tokens=case.max_tokens,
        temperature=0,
        stop=case.stop,
        response_format=form,
        unmask=case.unmask,
    )


def read_completions(body: Body) -> Answer:
    (choice,) = body["choices"]
    return Answer(choice["text"], choice["finish_reason"], _openai_usage(body))


CHAT = Dialect("chat", "/v1/chat/completions", "openai_chat", put_chat, read_chat)
COMPLETIONS = Dialect("completions", "/v1/completions", "openai_completions", put_completions, read_completions)

ALL = (CHAT, COMPLETIONS)
DIALECTS = tuple(dialect for dialect in ALL if dialect.landed)

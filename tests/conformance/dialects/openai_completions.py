"""OpenAI's legacy completions."""

from __future__ import annotations

from tests.conformance.cases import MODEL, Case
from tests.conformance.dialects.base import Answer, Body, Dialect, present
from tests.conformance.dialects.openai_chat import STREAMS, response_format, usage


def put(case: Case) -> Body | None:
    if not case.plain or case.thought:
        return None
    return present(
        model=MODEL,
        prompt=case.turns[0].content,
        max_tokens=case.max_tokens,
        temperature=0,
        stop=case.stop,
        response_format=case.schema and response_format(case.schema),
        unmask=case.unmask,
    )


def read(body: Body) -> Answer:
    (choice,) = body["choices"]
    return Answer(choice["text"], choice["finish_reason"], usage(body))


COMPLETIONS = Dialect("completions", "/v1/completions", "openai_completions", put, read, **STREAMS)

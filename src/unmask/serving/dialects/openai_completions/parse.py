"""From the request body to prompts and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from unmask.answers.chat import Continuation
from unmask.serving.dialects.openai_common.parse import format_names, parse_params, wants_usage
from unmask.serving.dialects.openai_completions.logprobs import wanted
from unmask.serving.dialects.openai_completions.wire import CompletionRequest, Prompt


@dataclass(frozen=True, slots=True)
class ParsedCompletion:
    """What the body asks for, and how. ``names`` maps parameters to the request's fields, for errors."""

    asked: Continuation
    include_usage: bool
    names: dict[str, str]


def parse(body: CompletionRequest) -> ParsedCompletion:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    texts, ids = _prompts(body.prompt)
    params = parse_params(body, body.max_tokens, wanted(body))
    asked = Continuation(params=params, texts=texts, ids=ids, copies=body.n or 1, echo=bool(body.echo))
    return ParsedCompletion(asked, wants_usage(body), format_names(body))


def _prompts(prompt: Prompt) -> tuple[list[str], list[list[int]]]:
    """The four ways to write a prompt as one list of texts and one list of id lists; one of them is empty."""
    if isinstance(prompt, str):
        return [prompt], []
    first = prompt[0]  # all others are of its kind
    if isinstance(first, str):
        return cast("list[str]", prompt), []
    return [], [cast("list[int]", prompt)] if isinstance(first, int) else cast("list[list[int]]", prompt)

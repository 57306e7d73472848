"""From the request body to prompts and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from unmask.params import GenerationParams
from unmask.serving.dialects.openai_common.parse import format_names, parse_params, wants_usage
from unmask.serving.dialects.openai_completions.logprobs import wanted
from unmask.serving.dialects.openai_completions.wire import CompletionRequest, Prompt


@dataclass(frozen=True, slots=True)
class ParsedCompletion:
    """A completion request in the engine's words. Prompts are all texts, or all token ids.

    Each gets ``copies`` answers, which with ``echo`` begin with it. ``names`` maps parameters to the request's fields,
    for errors.
    """

    texts: list[str]
    ids: list[list[int]]
    params: GenerationParams
    include_usage: bool
    copies: int
    echo: bool
    names: dict[str, str]

    @property
    def answers_each(self) -> int:
        """How much a prompt asks for: its answers, of no tokens too, and beside such as have some its score."""
        scored = self.echo and self.params.logprobs is not None and self.params.max_tokens != 0
        return self.copies + scored


def parse(body: CompletionRequest) -> ParsedCompletion:
    """The meaning of ``body``. Raises ``InvalidValueError`` where fields contradict each other."""
    texts, ids = _prompts(body.prompt)
    params = parse_params(body, body.max_tokens, wanted(body))
    echo = bool(body.echo)
    return ParsedCompletion(texts, ids, params, wants_usage(body), body.n or 1, echo, format_names(body))


def _prompts(prompt: Prompt) -> tuple[list[str], list[list[int]]]:
    """The four ways to write a prompt as one list of texts and one list of id lists; one of them is empty."""
    if isinstance(prompt, str):
        return [prompt], []
    first = prompt[0]  # all others are of its kind
    if isinstance(first, str):
        return cast("list[str]", prompt), []
    return [], [cast("list[int]", prompt)] if isinstance(first, int) else cast("list[list[int]]", prompt)

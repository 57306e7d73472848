"""The schema of POST /v1/completions: request, response and chunk."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import Discriminator, Field, Tag

from unmask.events import WireFinish
from unmask.serving.dialects.openai_common.wire import OpenAIRequest, Usage
from unmask.serving.extension import GenerationReport
from unmask.serving.wire import Only


def _kind(prompt: Any) -> str:
    if not isinstance(prompt, list):
        return "<text>"
    first = prompt[0] if prompt else ""
    return {int: "<ids>", list: "<many ids>"}.get(type(first), "<texts>")


# One bad entry is enough to refuse all. No server holds this many prompts: each is a whole request.
_Ids = Annotated[list[int], Field(min_length=1, fail_fast=True)]
_Texts = Annotated[list[str], Field(min_length=1, max_length=4096, fail_fast=True)]
_ManyIds = Annotated[list[_Ids], Field(max_length=4096, fail_fast=True)]

Prompt = Annotated[
    Annotated[str, Tag("<text>")]
    | Annotated[_Texts, Tag("<texts>")]
    | Annotated[_Ids, Tag("<ids>")]
    | Annotated[_ManyIds, Tag("<many ids>")],
    Discriminator(_kind),
]


class CompletionRequest(OpenAIRequest):
    """The request body. Several prompts give several choices, in the prompts' order; so do the ``n`` of each."""

    foreign_names: ClassVar[dict[str, str]] = OpenAIRequest.foreign_names | {
        "max_completion_tokens": "max_tokens",
        "messages": "prompt",
        "input": "prompt",
        "top_logprobs": "logprobs",
    }

    prompt: Prompt
    logprobs: int | None = None

    echo: bool | None = None
    suffix: Annotated[Any, Only()] = None


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """``choices[].logprobs``: an entry of each list for each token. ``text_offset`` counts from the text's start.

    A token that is a part of a character is written as ``bytes:`` and its bytes, ``\\xNN`` each. The first token of an
    echoed prompt has no number.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt's completion. ``unmask`` is here when the request had several prompts."""

    index: int
    text: str
    finish_reason: WireFinish
    logprobs: CompletionLogprobs | None = None
    unmask: GenerationReport | UnsetType = UNSET


class CompletionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response body. ``unmask`` is here when the request had one prompt."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    unmask: GenerationReport | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True):
    """One prompt's part of a chunk; ``finish_reason`` is null until its last one."""

    index: int
    text: str = ""
    finish_reason: WireFinish | None = None
    logprobs: CompletionLogprobs | None = None

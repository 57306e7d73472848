"""Request fields of both OpenAI endpoints, and the usage object of both responses."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import Discriminator, Field, Tag

from unmask.serving.extension import UnmaskOptions
from unmask.serving.wire import Only, RequestBody, WireModel

_StopString = Annotated[str, Field(min_length=1, max_length=1024)]
_StopStrings = Annotated[list[_StopString], Field(max_length=16)]


def _is_list(value: Any) -> str:
    return "<many>" if isinstance(value, list) else "<one>"


Stop = Annotated[Annotated[_StopString, Tag("<one>")] | Annotated[_StopStrings, Tag("<many>")], Discriminator(_is_list)]


class StreamOptions(WireModel):
    """``stream_options``: whether the last chunk carries the usage."""

    include_usage: bool | None = None
    include_obfuscation: Annotated[Any, Only(False)] = None
    continuous_usage_stats: Annotated[Any, Only(False)] = None


class OpenAIRequest(RequestBody):
    """Fields of both endpoints. ``None`` is "not said"; ``Only`` fields pass with harmless values."""

    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_tokens: int | None = None
    seed: int | None = None
    stop: Stop | None = None
    ignore_eos: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    unmask: UnmaskOptions | None = None
    user: str | None = None  # a label for the caller's own use; it has no effect on the answer

    n: Annotated[Any, Only(1)] = None
    best_of: Annotated[Any, Only(1)] = None
    frequency_penalty: Annotated[Any, Only(0)] = None
    presence_penalty: Annotated[Any, Only(0)] = None
    repetition_penalty: Annotated[Any, Only(1)] = None
    logit_bias: Annotated[Any, Only({})] = None
    min_p: Annotated[Any, Only(0)] = None
    prompt_logprobs: Annotated[Any, Only()] = None
    skip_special_tokens: Annotated[Any, Only(True)] = None
    stop_token_ids: Annotated[Any, Only([])] = None


class Usage(msgspec.Struct, frozen=True):
    """Tokens billed: committed tokens up to and including the end token, never noisy ones."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, prompt_tokens: int, completion_tokens: int) -> Usage:
        """The usage of one response."""
        return cls(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)

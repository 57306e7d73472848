"""Request fields of both OpenAI endpoints, and what both responses have: usage, and chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BeforeValidator, Field
from pydantic_core import PydanticKnownError

from unmask.answers.answer import Answer
from unmask.params import MAX_BIASES
from unmask.serving.dialects.openai_common.response_format import ResponseFormat
from unmask.serving.extension import GenerationReport, UnmaskOptions
from unmask.serving.frames import FrameExtension
from unmask.serving.model_request import ModelRequest
from unmask.serving.sampling_fields import SamplingFields
from unmask.serving.stop import Stop
from unmask.serving.wire import Only, WireModel

MAX_COPIES = 128  # answers to one prompt, as OpenAI's endpoints have it


def _at_most(most: int) -> BeforeValidator:
    """Checked before the entries themselves, of which a body can hold very many."""

    def check(entries: Any) -> Any:
        if isinstance(entries, dict) and len(entries) > most:
            limits = {"field_type": "Dictionary", "max_length": most, "actual_length": len(entries)}
            raise PydanticKnownError("too_long", limits)
        return entries

    return BeforeValidator(check)


Biases = Annotated[dict[str, float], _at_most(MAX_BIASES)]
Labels = Annotated[dict[str, str], _at_most(16)]


class StreamOptions(WireModel):
    """``stream_options``: whether the last chunk carries the usage."""

    include_usage: bool | None = None
    include_obfuscation: Annotated[Any, Only(False)] = None
    continuous_usage_stats: Annotated[Any, Only(False)] = None


class OpenAIRequest(ModelRequest, SamplingFields):
    """Fields of both endpoints. ``None`` is "not said"; ``Only`` fields pass with harmless values."""

    foreign_names: ClassVar[dict[str, str]] = ModelRequest.foreign_names | {
        "max_output_tokens": "max_tokens",
        "max_new_tokens": "max_tokens",
        "num_predict": "max_tokens",
        "gen_length": "max_tokens",
        "stop_sequences": "stop",
        "repeat_penalty": "repetition_penalty",
        "format": "response_format",
        "structured_outputs": "response_format",
    }

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_tokens: int | None = None
    seed: int | None = None
    stop: Stop | None = None
    ignore_eos: bool | None = None
    logit_bias: Biases | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    unmask: UnmaskOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_COPIES)] | None = None
    user: str | None = None  # whose request it is: users of one key share the engine fairly

    best_of: Annotated[Any, Only(1)] = None
    prompt_logprobs: Annotated[Any, Only()] = None
    skip_special_tokens: Annotated[Any, Only(True)] = None
    stop_token_ids: Annotated[Any, Only([])] = None


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """How many of the prompt tokens were found in the prefix cache."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    """How many of the answer's tokens were reasoning."""

    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens billed: committed tokens up to and including the end token, never noisy ones."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails

    @classmethod
    def of(cls, answers: Sequence[Answer], copies: int = 1) -> Usage:
        """The usage of one response, which brings ``answers``, ``copies`` in a row to each prompt."""
        firsts = [answer.completion for answer in answers[::copies]]
        prompt = sum(completion.prompt_tokens for completion in firsts)
        cached = sum(completion.stats.cached for completion in firsts)
        completion = sum(answer.completion.completion_tokens for answer in answers)
        reasoning = sum(answer.reasoning_tokens for answer in answers)
        return cls(
            prompt, completion, prompt + completion, PromptTokensDetails(cached), CompletionTokensDetails(reasoning)
        )


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. ``usage`` is there only if asked for, and null on all chunks but the last.

    ``unmask`` belongs to the chunk's one choice, whose shape is the dialect's.
    """

    id: str
    object: str
    created: int
    model: str
    choices: list[msgspec.Struct]
    usage: Usage | UnsetType | None = UNSET
    unmask: GenerationReport | FrameExtension | UnsetType = UNSET

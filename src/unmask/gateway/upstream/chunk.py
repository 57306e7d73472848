"""A chunk of a lane's stream, or its whole answer: what of it is looked at, in all shapes that servers give it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Struct


class Function(Struct):
    """A called function. ``arguments``: JSON text or a piece of it; with some servers an object."""

    name: str | None = None
    arguments: Any = None


class Call(Struct):
    """A call, or more of its arguments."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Delta(Struct):
    """What a chunk adds; in a whole answer, the message. Reasoning has two names."""

    content: Any = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None

    @property
    def thought(self) -> str:
        """The reasoning."""
        return self.reasoning_content or self.reasoning or ""

    @property
    def text(self) -> str:
        """The content, which may come in typed parts; a refusal is content too."""
        if isinstance(self.content, list):
            parts = [part.get("text") for part in self.content if isinstance(part, dict)]
            return "".join(part for part in parts if isinstance(part, str))
        return (self.content if isinstance(self.content, str) else "") or self.refusal or ""


class Entry(Struct, rename={"codes": "bytes"}):
    """A token and what the model thought of it; with some servers without the ``codes`` of its bytes."""

    token: str | None = None
    logprob: float | None = None
    codes: list[int] | None = None
    top_logprobs: list[Entry] | None = None

    @property
    def spelling(self) -> tuple[str, bytes]:
        """Its text and its bytes."""
        text = self.token or ""
        if self.codes is None or not all(0 <= code < 256 for code in self.codes):
            return text, text.encode()
        return text, bytes(self.codes)


class TextLogprobs(Struct):
    """Log-probabilities: entries of chats, or parallel lists of texts that are gone on with."""

    content: list[Entry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float | None] | None] | None = None


class Choice(Struct):
    """The answer. ``stop_reason`` and ``matched_stop``: the stop string that was met, as vLLM and SGLang tell it."""

    delta: Delta | None = None
    message: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    logprobs: TextLogprobs | None = None
    stop_reason: Any = None
    matched_stop: Any = None

    @property
    def added(self) -> Delta:
        """What is new."""
        return self.delta or self.message or Delta(content=self.text)

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the text, if the server tells of one."""
        for told in (self.stop_reason, self.matched_stop):
            if isinstance(told, str) and told:
                return told
        return None


class Details(Struct):
    """Parts of a count."""

    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class UsageTold(Struct):
    """Token counts. SGLang has those of reasoning here."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    completion_tokens_details: Details | None = None
    reasoning_tokens: int | None = None


class Timings(Struct):
    """llama.cpp's own counts: of the prompt, what was ``cache_n`` and what was computed."""

    prompt_n: int | None = None
    cache_n: int | None = None
    predicted_n: int | None = None


class DiffusionMeta(Struct):
    """Mercury's: whether the content is the whole text as it stands."""

    diffusion_content: bool = False


class Chunk(Struct):
    """One event. ``message``, ``code`` and ``type`` are those of an error that has no envelope."""

    choices: list[Choice] | None = None
    usage: UsageTold | None = None
    timings: Timings | None = None
    diffusion_meta: DiffusionMeta | None = None
    error: Any = None
    object: Any = None
    code: Any = None
    message: Any = None
    type: Any = None

    @property
    def snapshot(self) -> bool:
        """Whether its content replaces all that came before."""
        return self.diffusion_meta is not None and self.diffusion_meta.diffusion_content


_DECODER = msgspec.json.Decoder(Chunk, strict=False)


def decode_chunk(data: bytes) -> Chunk:
    """Raises ``ValueError`` for what is no chunk.

    Halves of characters, and numbers that are none, are no JSON, but servers write them: they are taken as not there.
    """
    try:
        return _DECODER.decode(data)
    except ValueError:
        try:
            value = json.loads(data, parse_constant=lambda name: None)
            return _DECODER.decode(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None

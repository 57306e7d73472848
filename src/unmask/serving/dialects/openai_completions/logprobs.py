"""The log-probabilities of a text completion, in four parallel lists."""

from __future__ import annotations

from collections.abc import Sequence

from unmask.answers.cells import Cells
from unmask.errors import InvalidValueError
from unmask.events import TokenLogprob
from unmask.serving.dialects.openai_completions.wire import CompletionLogprobs, CompletionRequest

_MOST = 5  # alternatives, as OpenAI's endpoint has it


def wanted(body: CompletionRequest) -> int | None:
    """How many alternatives ``body`` asks for with each token; None if it asks for no log-probabilities."""
    if body.logprobs is not None and not 0 <= body.logprobs <= _MOST:
        raise InvalidValueError(
            f"'logprobs' is {body.logprobs}; it must be an integer from 0 to {_MOST}.", param="logprobs"
        )
    return body.logprobs


def encode_logprobs(entries: Sequence[TokenLogprob] | None, cells: Cells) -> CompletionLogprobs | None:
    """``entries`` as the completion or chunk that they belong to has them."""
    if entries is None:
        return None
    return CompletionLogprobs(
        tokens=[_name(entry.token_id, cells) for entry in entries],
        token_logprobs=[entry.logprob if entry.judged else None for entry in entries],
        top_logprobs=[_top(entry, cells) if entry.judged else None for entry in entries],
        text_offset=[entry.offset for entry in entries],
    )


def _top(entry: TokenLogprob, cells: Cells) -> dict[str, float]:
    """The alternatives, and the token itself if it is not one of them. The likeliest of equal names counts."""
    told = [*entry.alternatives, (entry.token_id, entry.logprob)]
    return {_name(token_id, cells): logprob for token_id, logprob in reversed(told)}


def _name(token_id: int, cells: Cells) -> str:
    """The token's text, or its bytes where they are a part of a character."""
    text, spelled = cells.spell(token_id)
    if text.encode() == bytes(spelled):
        return text
    return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)

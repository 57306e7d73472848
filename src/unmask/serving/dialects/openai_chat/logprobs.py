"""The log-probabilities of a chat answer: asked for with two fields, told token by token."""

from __future__ import annotations

from collections.abc import Sequence

from unmask.engine.text import CellDecoder
from unmask.errors import InvalidValueError
from unmask.events import TokenLogprob
from unmask.serving.dialects.openai_chat.wire import ChatLogprobs, ChatRequest
from unmask.serving.dialects.openai_common.logprobs import encode_entries


def wanted(body: ChatRequest) -> int | None:
    """How many alternatives ``body`` asks for with each token; None if it asks for no log-probabilities."""
    if not body.logprobs:
        if body.top_logprobs:
            raise InvalidValueError("'top_logprobs' needs 'logprobs': true.", param="top_logprobs")
        return None
    return body.top_logprobs or 0


def encode_logprobs(entries: Sequence[TokenLogprob] | None, cells: CellDecoder) -> ChatLogprobs | None:
    """``entries`` as the answer or chunk that they belong to has them."""
    if entries is None:
        return None
    return ChatLogprobs(encode_entries(entries, cells))

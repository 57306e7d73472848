"""The log-probabilities of a chat answer: asked for with two fields, told token by token."""

from __future__ import annotations

from collections.abc import Sequence

from unmask.engine.text import CellDecoder
from unmask.errors import InvalidValueError
from unmask.events import TokenLogprob
from unmask.serving.dialects.openai_chat.wire import ChatLogprob, ChatLogprobs, ChatRequest, TopLogprob


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
    return ChatLogprobs([_encode(entry, cells) for entry in entries])


def _encode(entry: TokenLogprob, cells: CellDecoder) -> ChatLogprob:
    top = [_top(token_id, logprob, cells) for token_id, logprob in entry.alternatives]
    token, spelled = cells.spell(entry.token_id)
    return ChatLogprob(token, entry.logprob, spelled, top)


def _top(token_id: int, logprob: float, cells: CellDecoder) -> TopLogprob:
    token, spelled = cells.spell(token_id)
    return TopLogprob(token, logprob, spelled)

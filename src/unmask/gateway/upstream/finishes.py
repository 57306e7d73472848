"""Why an answer ended, in the words of many servers."""

from __future__ import annotations

from unmask.errors import EngineCrashedError, UpstreamError
from unmask.events import FinishReason
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.shown import cut, printable

_CUT_SHORT = ("length", "max_tokens", "model_length", "content_filter")
_ABORTED = ("abort", "aborted", "cancelled", "canceled", "insufficient_system_resource")


def finish_of(told: str, endpoint: Endpoint) -> FinishReason:
    """``told`` in our words. What a filter ended is cut short like any other answer; a word that is not known means
    that it ended of itself. Raises ``EngineCrashedError`` or ``UpstreamError`` for an end that is none.
    """
    word = told.lower()
    if word in _CUT_SHORT:
        return "length"
    if word in _ABORTED:
        raise EngineCrashedError(
            f"{endpoint.told} gave the answer up ({printable(cut(word))}).", hint=f"Try again. {endpoint.look}"
        )
    if word == "error":
        raise UpstreamError(f"{endpoint.told} ended the answer with an error.", hint=endpoint.look)
    return "stop"

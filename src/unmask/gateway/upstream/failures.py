"""A lane's errors as those of our catalogue: what it says, in the words of many servers, and what that means here."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from unmask.errors import (
    ContextLengthError,
    EngineStalledError,
    EngineUnavailableError,
    InvalidValueError,
    LaneKeyError,
    ModelNotFoundError,
    ModelUnsupportedEngineError,
    QueueFullError,
    UnmaskError,
    UpstreamError,
)
from unmask.gateway.upstream.chunk import Chunk
from unmask.gateway.upstream.endpoint import Endpoint
from unmask.shown import cut, printable

_LONGEST_WAIT = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class Told:
    """What a server says of an error. ``words``: its code and its type, as far as they are texts."""

    status: int
    words: frozenset[str]
    message: str
    param: str | None = None
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """An error with one of the ``statuses`` and ``words``, where some are given, whose message fits ``pattern``."""

    means: type[UnmaskError]
    says: str
    hint: str
    statuses: Collection[int] = ()
    words: Collection[str] = ()
    pattern: str = ""

    def fits(self, told: Told) -> bool:
        return (
            (not self.statuses or told.status in self.statuses)
            and (not self.words or not told.words.isdisjoint(self.words))
            and (not self.pattern or re.search(self.pattern, told.message, re.IGNORECASE) is not None)
        )


_CONTEXT = (
    r"context (size|length|window)|maximum (context|model) length|max_model_len|prompt is too long"
    r"|(input|prompt)\b.* (is|are) longer than|exceeds? .*max.* (tokens|length)|too many (input |prompt )?tokens"
)
_BAD_REQUEST = (400, 405, 409, 413, 415, 422)
_KEY_WORDS = ("invalid_api_key", "authentication_error", "permission_error", "insufficient_quota", "billing_error")
_DIFFUSION = "It is a diffusion model, or one that makes vectors: serve it with lane 'unmask', or choose another model."
_ADDRESS = "Its address in this server's configuration may be wrong."

# The first row that fits decides; {lane} is the lane, {told} what it says; {look} where to.
TABLE: tuple[_Row, ...] = (
    _Row(
        ModelUnsupportedEngineError,
        "{lane} writes one token after another, and cannot do so with this model: {told}",
        _DIFFUSION,
        pattern=r"does not (support )?logits computation",
    ),
    _Row(
        ContextLengthError,
        "{lane}: {told}",
        "Shorten the prompt, or ask for fewer tokens.",
        words=("context_length_exceeded", "exceed_context_size_error"),
    ),
    _Row(
        ContextLengthError,
        "{lane}: {told}",
        "Shorten the prompt, or ask for fewer tokens.",
        statuses=(400, 413, 422),
        pattern=_CONTEXT,
    ),
    _Row(
        ModelNotFoundError,
        "{lane} does not serve the model: {told}",
        "Its name there is set up at this server.",
        words=("model_not_found",),
    ),
    _Row(
        ModelNotFoundError,
        "{lane} does not serve the model: {told}",
        "Its name there is set up at this server.",
        statuses=(404,),
        pattern=r"\bmodel\b",
    ),
    _Row(UpstreamError, "{lane} has no such endpoint: {told}", _ADDRESS, statuses=(404,)),
    _Row(LaneKeyError, "{lane} does not take this server's key.", "It is set up at this server.", words=_KEY_WORDS),
    _Row(
        LaneKeyError,
        "{lane} does not take this server's key.",
        "It is set up at this server.",
        statuses=(401, 402, 403, 407),
    ),
    _Row(QueueFullError, "{lane} is busy: {told}", "Try again later.", statuses=(429,)),
    _Row(QueueFullError, "{lane} is busy: {told}", "Try again later.", words=("rate_limit_exceeded",)),
    _Row(EngineUnavailableError, "{lane} is not ready: {told}", "Try again later.", statuses=(503, 529)),
    _Row(
        EngineUnavailableError,
        "{lane} is not ready: {told}",
        "Try again later.",
        words=("unavailable_error", "overloaded_error", "overloaded"),
    ),
    _Row(EngineStalledError, "{lane} took too long: {told}", "Try again later.", statuses=(408, 504)),
    _Row(InvalidValueError, "{lane} refuses the request: {told}", "", statuses=_BAD_REQUEST),
    _Row(InvalidValueError, "{lane} refuses the request: {told}", "", words=("invalid_request_error",)),
    _Row(UpstreamError, "{lane} sends the request elsewhere: {told}", _ADDRESS, statuses=range(300, 400)),
    _Row(UpstreamError, "{lane} failed: {told}", "{look}"),
)


def failure_of(told: Told, endpoint: Endpoint) -> UnmaskError:
    """The error of our catalogue that ``told`` by ``endpoint`` means."""
    row = next(row for row in TABLE if row.fits(told))
    words = told.message.replace(endpoint.key, "***") if endpoint.key else told.message
    status = f" (HTTP {told.status})" if told.status else ""
    said = f"{printable(cut(words.strip())) or 'it does not say why'}{status}."
    return row.means(
        row.says.format(lane=endpoint.told, told=said),
        hint=row.hint.format(look=endpoint.look),
        param=_param(row.means, told),
        retry_after=told.retry_after,
    )


def _param(means: type[UnmaskError], told: Told) -> str | None:
    if means is ModelNotFoundError:
        return "model"
    return told.param if means in (InvalidValueError, ContextLengthError) else None


def told_by_response(status: int, headers: Mapping[str, str], body: bytes) -> Told:
    """What a response that is no answer says."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        value = _title(body.decode(errors="replace"))
    envelope = value if isinstance(value, dict) else {}
    inner = next((envelope[key] for key in ("error", "detail", "errors") if envelope.get(key)), value)
    told = _told(inner, status)
    wait = _seconds(headers.get("Retry-After")) or _seconds(envelope.get("retry_after")) or told.retry_after
    return Told(status, told.words, told.message, told.param, wait)


def told_by_chunk(chunk: Chunk) -> Told | None:
    """What a chunk says of an error; None if it is none."""
    if chunk.error:
        return _told(chunk.error, 0)
    bare = chunk.choices is None and isinstance(chunk.message, str)
    if bare or chunk.object == "error":
        return _told({"message": chunk.message, "code": chunk.code, "type": chunk.type}, 0)
    return None


def _told(value: Any, status: int) -> Told:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return Told(status, frozenset(), value if isinstance(value, str) else str(value))
    code, kind, param = value.get("code"), value.get("type"), value.get("param") or _place(value.get("loc"))
    message = next((value[key] for key in ("message", "msg", "error", "detail") if value.get(key)), "")
    number = code if isinstance(code, int) and 100 <= code < 600 else status
    return Told(
        status or number,
        frozenset(word for word in (code, kind) if isinstance(word, str)),
        str(message),
        param if isinstance(param, str) and len(param) <= 100 else None,
        _seconds(value.get("retry_after")),
    )


def _place(loc: Any) -> str | None:
    """The field that FastAPI's servers name: ``["body", "temperature"]``."""
    if not isinstance(loc, list):
        return None
    return ".".join(step for step in loc[1:] if isinstance(step, str)) or None


def _title(page: str) -> str:
    """What there is to tell of a text that is no JSON: of a page its title."""
    title = re.search(r"<title[^>]*>(.*?)</title>", page[:10_000], re.IGNORECASE | re.DOTALL)
    if title:
        return f"a web page, '{title.group(1).strip()}'"
    return "a web page" if page.lstrip()[:1] == "<" else page


def _seconds(value: Any) -> int | None:
    """``Retry-After`` as whole seconds; a date is not looked at."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return min(max(1, int(-(-seconds // 1))), _LONGEST_WAIT) if seconds == seconds and seconds >= 0 else None

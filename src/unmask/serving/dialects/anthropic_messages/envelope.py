"""Errors as Anthropic's clients expect them: ``{"type": "error", "error": {type, message}}``."""

from __future__ import annotations

import msgspec

from unmask.serving.errors import Problem

_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class UnsupportedThread(msgspec.Struct, frozen=True):
    """That no conversations are kept here: clients that asked for it by themselves then do without."""

    error_code: str = "thread_unsupported_request"
    unsupported: tuple[str, ...] = ("thread",)


class ErrorBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """The inside of the envelope; ``code`` and ``param`` are the catalogue's."""

    type: str
    message: str
    code: str
    param: str | None
    details: UnsupportedThread | None = None


class ErrorEnvelope(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """An error on the wire, as a response body or as an event in a stream."""

    error: ErrorBody


def envelope(problem: Problem) -> ErrorEnvelope:
    """``problem`` in Anthropic's shape."""
    other = "invalid_request_error" if problem.status < 500 else "api_error"
    details = UnsupportedThread() if problem.param == "thread" else None
    kind = _KINDS.get(problem.status, other)
    return ErrorEnvelope(ErrorBody(kind, problem.message, problem.code, problem.param, details))

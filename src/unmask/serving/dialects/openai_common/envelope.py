"""Errors as OpenAI clients expect them: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

import msgspec

from unmask.serving.errors import Problem


class ErrorBody(msgspec.Struct, frozen=True):
    """The inside of the envelope; ``code`` is the catalogue's."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """An error on the wire, as a response body or as an event in a stream."""

    error: ErrorBody


def envelope(problem: Problem) -> ErrorEnvelope:
    """``problem`` in OpenAI's shape."""
    kind = "rate_limit_error" if problem.status == 429 else "invalid_request_error"
    if problem.status >= 500:
        kind = "server_error"
    return ErrorEnvelope(ErrorBody(problem.message, kind, problem.param, problem.code))

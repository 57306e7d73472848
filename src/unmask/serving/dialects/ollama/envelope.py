"""Errors as Ollama's clients expect them: ``{"error": "..."}``."""

from __future__ import annotations

import msgspec

from unmask.serving.errors import Problem


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """An error on the wire, as a response body or as a line in a stream; ``code`` and ``param`` are the catalogue's."""

    error: str
    code: str
    param: str | None


def envelope(problem: Problem) -> ErrorEnvelope:
    """``problem`` in Ollama's shape."""
    return ErrorEnvelope(problem.message, problem.code, problem.param)

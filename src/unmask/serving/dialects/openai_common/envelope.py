"""Errors as OpenAI clients expect them: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from unmask.errors import (
    InvalidValueError,
    QueueFullError,
    UnknownFieldError,
    UnmaskError,
    UnsupportedValueError,
)

_CLIENT_CLOSED_REQUEST = 499
_RETRY_SECONDS = "1"
_HTTP_CODES = {400: "invalid_json", 404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}

_log = structlog.get_logger()


class ErrorBody(msgspec.Struct, frozen=True):
    """The inside of the envelope; ``code`` is the catalogue's."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorEnvelope(msgspec.Struct, frozen=True):
    """An error on the wire, as a response body or as an event in a stream."""

    error: ErrorBody


def envelope(error: UnmaskError) -> ErrorEnvelope:
    """``error`` in OpenAI's shape; the hint is part of the message."""
    return ErrorEnvelope(ErrorBody(str(error), _type(error.status), error.param, error.code))


def catalogued(error: Exception) -> UnmaskError:
    """``error`` itself if it is of the catalogue; anything else is a bug of ours and is logged."""
    if isinstance(error, UnmaskError):
        return error
    _log.error("unexpected error", exc_info=error)
    return UnmaskError("The server met an unexpected error.", hint="Its log tells more, under this x-request-id.")


def error_response(error: Exception) -> Response:
    """The HTTP response for ``error``."""
    known = catalogued(error)
    headers = {"retry-after": _RETRY_SECONDS} if isinstance(known, QueueFullError) else None
    return _response(known.status, envelope(known), headers)


def add_error_handlers(app: FastAPI) -> None:
    """Make every error that ``app`` can meet leave it in the envelope."""

    @app.exception_handler(UnmaskError)
    async def catalogue(request: Request, error: UnmaskError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def validation(request: Request, error: RequestValidationError) -> Response:
        return error_response(explain(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code = _HTTP_CODES.get(error.status_code, "http_error")
        body = ErrorBody(error.detail, _type(error.status_code), None, code)
        return _response(error.status_code, ErrorEnvelope(body), error.headers)

    @app.exception_handler(ClientDisconnect)
    async def disconnect(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=_CLIENT_CLOSED_REQUEST)


def explain(errors: Sequence[Any]) -> UnmaskError:
    """The first of pydantic's ``errors`` as an error of the catalogue that names the field."""
    first = errors[0]
    kind, what = first["type"], str(first["msg"])
    if kind == "json_invalid":
        return InvalidValueError(f"The body is not JSON: {first['ctx']['error']}.")
    param = _path(first["loc"], keep_last=kind == "extra_forbidden")
    if param is None:
        hint = "Send it with 'Content-Type: application/json'." if isinstance(first["input"], bytes) else ""
        return InvalidValueError("The body must be a JSON object.", hint=hint)
    if kind == "extra_forbidden":
        return UnknownFieldError(f"Unknown field '{param}'.", hint="Leave it out.", param=param)
    message = f"'{param}': {what[0].lower()}{what[1:]}."
    if kind == "unsupported_value":
        return UnsupportedValueError(message, param=param)
    return InvalidValueError(message, param=param)


def _path(location: Sequence[str | int], *, keep_last: bool) -> str | None:
    """``("body", "messages", 0, "<text>")`` as ``messages[0]``: tags of unions, in ``<>``, are left out."""
    path = ""
    for number, step in enumerate(location[1:], 2):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("<") or (keep_last and number == len(location)):
            path += f".{step}" if path else step
    return path[:200] or None


def _type(status: int) -> str:
    return "invalid_request_error" if status < 500 else "server_error"


def _response(status: int, body: ErrorEnvelope, headers: Any = None) -> Response:
    return Response(msgspec.json.encode(body), status, headers, media_type="application/json")

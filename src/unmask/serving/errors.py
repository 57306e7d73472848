"""Every error that can leave the application, in the shape that clients of its path expect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from unmask.errors import (
    EngineUnavailableError,
    InvalidApiKeyError,
    InvalidValueError,
    ModelRefusedError,
    NotInstalledError,
    NotServedError,
    ShuttingDownError,
    UnknownFieldError,
    UnmaskError,
    UnsupportedValueError,
)
from unmask.serving.lengths import LENGTHS, explain_length
from unmask.serving.lost import explain_lost
from unmask.serving.trace import current_trace
from unmask.serving.unknown_field import advice
from unmask.serving.wire import Unknown

_CLIENT_CLOSED_REQUEST = 499
_DOWN_SECONDS = 30  # when to ask again for a server or engine that is down: nothing tells when it will be back
_HTTP_CODES = {
    400: "invalid_json",
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
    431: "headers_too_large",
}

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a response tells of it, in whatever shape. The hint is part of the message."""

    status: int
    code: str
    message: str
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: Exception) -> Problem:
        """What to tell of ``error``. One that is not of the catalogue is a bug of ours and is logged."""
        match error:
            case UnmaskError():
                return cls(error.status, error.code, str(error), error.param, _headers(error))
            case RequestValidationError():
                return cls.of(explain(error.errors()))
            case HTTPException():
                code = _HTTP_CODES.get(error.status_code, "http_error")
                return cls(error.status_code, code, error.detail, headers=error.headers or {})
        _log.error("unexpected error", exc_info=error)
        hint = "Its log tells more, under this x-request-id."
        return cls.of(UnmaskError("The server met an unexpected error.", hint=hint))


def _headers(error: UnmaskError) -> dict[str, str]:
    """What a key should be sent as, or when to try again an error that time may heal, and whether elsewhere."""
    if isinstance(error, InvalidApiKeyError):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, NotInstalledError | NotServedError | ModelRefusedError):
        return {"x-should-retry": "false"}  # clients of OpenAI and Anthropic take it for a failure that may pass
    if isinstance(error, ShuttingDownError):  # on a new connection, which may lead to another server
        return {"retry-after": str(_DOWN_SECONDS), "connection": "close"}
    down = _DOWN_SECONDS if isinstance(error, EngineUnavailableError) else None
    seconds = down if error.retry_after is None else error.retry_after
    return {} if seconds is None else {"retry-after": str(seconds)}


Envelope = Callable[[Problem], msgspec.Struct]


class ErrorResponder:
    """Error responses in the envelope of the dialect that a path belongs to.

    ``envelopes`` maps path prefixes to envelopes; the longest prefix of a path decides, "" is there for the rest.
    ``paths`` are those that are served, for requests that miss them.
    """

    def __init__(self, envelopes: Mapping[str, Envelope], paths: Collection[str] = ()) -> None:
        self._envelopes = sorted(envelopes.items(), key=lambda item: len(item[0]), reverse=True)
        self._known = sorted(paths)

    def response(self, path: str, error: Exception) -> Response:
        """The HTTP response for ``error`` on ``path``."""
        problem = Problem.of(error)
        if isinstance(error, HTTPException):
            problem = replace(problem, message=explain_lost(error, path, self._known))
        current_trace().failed(problem.code, problem.message)
        envelope = next(envelope for prefix, envelope in self._envelopes if path.startswith(prefix))
        body = msgspec.json.encode(envelope(problem))
        return Response(body, problem.status, problem.headers, media_type="application/json")

    def install(self, app: FastAPI) -> None:
        """Make every error that ``app`` can foresee leave it this way."""

        async def respond(request: Request, error: Exception) -> Response:
            return self.response(request.url.path, error)

        async def disconnect(request: Request, error: Exception) -> Response:
            return Response(status_code=_CLIENT_CLOSED_REQUEST)

        for kind in (UnmaskError, RequestValidationError, HTTPException):
            app.add_exception_handler(kind, respond)
        app.add_exception_handler(ClientDisconnect, disconnect)


def explain(errors: Sequence[Any]) -> UnmaskError:
    """The first of pydantic's ``errors`` as an error of the catalogue that names the field.

    What is missing may be there under another name: a field of which there is something to say goes before it.
    """
    first = errors[0]
    if first["type"] == "missing":
        first = next((error for error in errors if error["type"] == "extra_forbidden" and _advice(error)), first)
    kind, what = first["type"], str(first["msg"])
    if kind == "json_invalid":
        return InvalidValueError(f"The body is not JSON: {first['ctx']['error']}.")
    if kind == "extra_forbidden":
        name = _path(first["loc"], keep_last=True) or ""
        return UnknownFieldError(f"Unknown field '{name}'.", hint=_advice(first) or "Leave it out.", param=name)
    param = _path(first["loc"])
    if param is None:
        hint = "Send it with 'Content-Type: application/json'." if isinstance(first["input"], bytes) else ""
        return InvalidValueError("The body must be a JSON object.", hint=hint)
    if kind in LENGTHS:
        return explain_length(kind, first["ctx"], param)
    message = f"'{param}': {what[0].lower()}{what[1:]}."
    if kind == "unsupported_value":
        return UnsupportedValueError(message, param=param)
    return InvalidValueError(message, param=param)


def _advice(error: Any) -> str | None:
    """What to send instead of the unknown field that ``error`` is about."""
    field: Unknown = error["input"]
    *place, name = error["loc"]
    return advice(field.model, name, _path(place) or "")


def _path(location: Sequence[str | int], *, keep_last: bool = False) -> str | None:
    """``("body", "messages", 0, "<text>")`` as ``messages[0]``: tags of unions, in ``<>``, are left out."""
    path = ""
    for number, step in enumerate(location[1:], 2):
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("<") or (keep_last and number == len(location)):
            path += f".{step}" if path else step
    return path[:200] or None

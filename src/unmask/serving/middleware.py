"""What surrounds every request: an id, a bounded body, a key check, and an answer even to a bug of ours."""

from __future__ import annotations

import secrets

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.errors import InvalidApiKeyError
from unmask.metrics import Metrics
from unmask.serving.errors import ErrorResponder

_OPEN_PATHS = ("/", "/health", "/ready", "/metrics")
_OPEN_FOLDER = "/playground/"


class RequestScope:
    """Gives each request an id (header and log), and turns an unexpected exception into a logged 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics, errors: ErrorResponder) -> None:
        self._app = app
        self._metrics = metrics
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request_id = secrets.token_hex(8)
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._metrics.response(message["status"])
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id, path=scope["path"]):
            try:
                await self._app(scope, receive, send_with_id)
            except Exception as error:
                if started:
                    raise  # the connection is cut: an honest end for a half-sent answer
                await self._errors.response(scope["path"], error)(scope, receive, send_with_id)


class BodyLimit:
    """Answers 413 to a body longer than ``limit`` bytes, without reading the rest."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        announced = int(Headers(scope=scope).get("content-length", "0"))
        received = 0

        async def receive_within_limit() -> Message:
            nonlocal received
            if announced > self._limit:
                raise self._too_large()
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._limit:
                raise self._too_large()
            return message

        await self._app(scope, receive_within_limit, send)

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"The body is larger than {self._limit >> 20} MiB.")


class ApiKey:
    """Lets pass what carries ``Authorization: Bearer <key>``; health, readiness, metrics and the playground's files are
    open.
    """

    def __init__(self, app: ASGIApp, key: str, errors: ErrorResponder) -> None:
        self._app = app
        self._errors = errors
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = scope.get("path", "")
        if scope["type"] != "http" or path in _OPEN_PATHS or path.startswith(_OPEN_FOLDER):
            return await self._app(scope, receive, send)
        given = dict(scope["headers"]).get(b"authorization", b"")
        if secrets.compare_digest(given, self._expected):
            return await self._app(scope, receive, send)
        refusal = InvalidApiKeyError("Incorrect API key.", hint="Send 'Authorization: Bearer <key>'.")
        await self._errors.response(scope["path"], refusal)(scope, receive, send)

"""What surrounds every request: an id, bounds on what it sends, and an answer even to a bug of ours."""

from __future__ import annotations

import asyncio
import re
import secrets

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.serving.errors import ErrorResponder
from unmask.serving.ledger import new_ledger
from unmask.serving.server_metrics import ServerMetrics
from unmask.shown import cut, printable

_ID_HEADERS = ("x-request-id", "x-client-request-id")
_PLAIN_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
_MOST_HEADERS, _MOST_HEADER_BYTES = 100, 2**15


class RequestScope:
    """Gives each request an id (header and log) and a ledger, and turns an unexpected exception into a logged 500.

    The id is the client's own if it is short and plain, else a new one.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, errors: ErrorResponder) -> None:
        self._app = app
        self._metrics = metrics
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request_id = _own_id(scope) or secrets.token_hex(8)
        started = False

        async def send_with_id(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                self._metrics.response(message["status"])
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        path = printable(cut(scope["path"]))
        with structlog.contextvars.bound_contextvars(request_id=request_id, path=path), new_ledger():
            try:
                await self._app(scope, receive, send_with_id)
            except Exception as error:
                if started:
                    raise  # the connection is cut: an honest end for a half-sent answer
                await self._errors.response(scope["path"], error)(scope, receive, send_with_id)


def _own_id(scope: Scope) -> str | None:
    """The id that the client has given its request."""
    headers = Headers(scope=scope)
    given = (headers.get(name, "") for name in _ID_HEADERS)
    return next((one for one in given if _PLAIN_ID.fullmatch(one)), None)


class HeaderLimit:
    """Answers 431 to more than 100 headers, or 32 KiB of them."""

    def __init__(self, app: ASGIApp, errors: ErrorResponder) -> None:
        self._app = app
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        headers = scope.get("headers", ())
        size = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b""))
        size += sum(len(name) + len(value) for name, value in headers)
        if scope["type"] == "http" and (len(headers) > _MOST_HEADERS or size > _MOST_HEADER_BYTES):
            most = f"{_MOST_HEADERS} headers, or {_MOST_HEADER_BYTES >> 10} KiB of them and the path"
            refusal = HTTPException(431, f"The request has more than {most}.")
            return await self._errors.response(scope["path"], refusal)(scope, receive, send)
        await self._app(scope, receive, send)


class BodyLimit:
    """Answers 413 to a body longer than ``limit`` bytes, without reading the rest, and 408 to one that has not come
    within ``seconds``.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        announced = int(Headers(scope=scope).get("content-length", "0"))
        due = asyncio.get_running_loop().time() + self._seconds
        received, more = 0, True

        async def receive_within_limit() -> Message:
            nonlocal received, more
            if announced > self._limit:
                raise self._too_large()
            try:
                async with asyncio.timeout_at(due if more else None):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"The body did not come within {self._seconds:g} s.") from None
            more = message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > self._limit:
                raise self._too_large()
            return message

        await self._app(scope, receive_within_limit, send)

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"The body is larger than {self._limit >> 20} MiB.")

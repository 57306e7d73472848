"""HTTP connections that cannot be held for nothing: bounds on what uvicorn waits for and keeps.

uvicorn itself bounds neither the time in which a request must arrive nor what it buffers of an unfinished head. What
has a whole head goes through the middleware, where errors have names; here is only what never gets so far.
"""

from __future__ import annotations

import asyncio
import http
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from unmask.errors import InvalidValueError, TooManyConnectionsError
from unmask.serving.errors import ErrorResponder

_log = structlog.get_logger()

_MOST_UNFINISHED = 2**17  # bytes of a head that is not there yet
_MOST_AHEAD = 100  # requests sent before the answer to an earlier one; behind them nothing is read, not even an end
_SPARE_SECONDS = 5.0  # what the middleware, which can tell of a late body, has before the connection is cut


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """``connections`` at once; seconds in which a request's head, then its body, must be there; seconds in which a
    client must take what is sent to it.
    """

    connections: int
    receive_seconds: float
    stall_seconds: float


def bounded_protocol(limits: ConnectionLimits, errors: ErrorResponder) -> type[BoundedProtocol]:
    """The protocol that keeps ``limits``, for ``uvicorn.Config``."""

    class Bounded(BoundedProtocol):
        _limits = limits
        _errors = errors

    return Bounded


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with deadlines. ``_deadline`` runs while a request is awaited that is not wholly there."""

    _limits: ConnectionLimits
    _errors: ErrorResponder

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._in_head = False
        self._unfinished = 0
        self._answered: RequestResponseCycle | None = None  # uvicorn knows only the request that came last

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client that says nothing is not waited for; one too many is told so."""
        super().connection_made(transport)
        self._expect(self._limits.receive_seconds, self._head_is_late)
        if len(self.connections) > self._limits.connections:
            self.app = self._too_many

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more, and nobody is there for what is being answered."""
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Whatever comes begins a request that must be there in time, and not grow for ever."""
        if self._deadline is None:
            self._expect(self._limits.receive_seconds, self._head_is_late)
        began_before = self._in_head
        super().data_received(data)
        if began_before and self._in_head:
            self._unfinished += len(data)
            if self._unfinished > _MOST_UNFINISHED:
                self._refuse(HTTPException(431, "The request's headers are too large."))

    def on_message_begin(self) -> None:
        """A request's first byte is there."""
        self._in_head, self._unfinished = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The body is next; ``BodyLimit`` knows when it is late, unless it has been refused unread."""
        self._in_head = False
        self._expect(self._limits.receive_seconds + _SPARE_SECONDS, self._body_is_late)
        waits = self.cycle is not None and not self.cycle.response_complete
        super().on_headers_complete()
        if not waits:
            self._answered = self.cycle
        elif len(self.pipeline) <= _MOST_AHEAD:
            self.flow.resume_reading()  # uvicorn stops, and would not see the client leave

    def on_message_complete(self) -> None:
        """The request is wholly there."""
        self._cancel()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The next request's turn, if it is here; what is there of it has its time from now on."""
        if self.pipeline:
            self._answered = self.pipeline[-1][0]
        super().on_response_complete()
        if self._deadline is not None:
            self._expect(self._limits.receive_seconds, self._head_is_late if self._in_head else self._body_is_late)

    def pause_writing(self) -> None:
        """The client takes nothing at the moment."""
        super().pause_writing()
        if self._stall is None:
            self._stall = self.loop.call_later(self._limits.stall_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It does again."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: it is answered as an ordinary request."""

    def send_400_response(self, msg: str) -> None:
        """uvicorn could make nothing of what came."""
        self._refuse(InvalidValueError("This is not a valid HTTP request."))

    def _head_is_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:  # somebody is still being answered here
            self._expect(self._limits.receive_seconds, self._head_is_late)
        elif self._in_head:
            self._refuse(HTTPException(408, "The request's headers took too long."))
        else:
            self.transport.close()

    def _body_is_late(self) -> None:
        if self.flow.read_paused or self.pipeline:  # it is we who do not read, or who answer somebody before
            self._expect(self._limits.receive_seconds, self._body_is_late)
        else:
            self.transport.close()

    def _expect(self, seconds: float, late: Callable[[], None]) -> None:
        self._cancel()
        self._deadline = self.loop.call_later(seconds, late)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    async def _too_many(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._problem(scope["path"], _crowded(self._limits.connections))(scope, receive, send)

    def _refuse(self, error: Exception) -> None:
        """Answer in place of the application, which knows nothing of this request, and close."""
        if self.transport.is_closing():
            return
        response = self._problem(self.url.decode("latin-1") if self._in_head else "/", error)
        phrase = http.HTTPStatus(response.status_code).phrase.encode()
        lines = [b"HTTP/1.1 %d %b" % (response.status_code, phrase)]
        lines += [b"%b: %b" % header for header in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()

    def _problem(self, path: str, error: Exception) -> Response:
        _log.warning("refused", client=self.client[0] if self.client else "", reason=str(error))
        response = self._errors.response(path, error)
        response.headers["connection"] = "close"
        return response


def _crowded(most: int) -> TooManyConnectionsError:
    return TooManyConnectionsError(f"{most} connections are open.", hint="Try again in a second.", retry_after=1)

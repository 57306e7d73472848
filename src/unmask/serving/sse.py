"""Server-sent events: bytes on the wire, comments during silence, and the end when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unmask.answers.answer import AnswerDelta
from unmask.serving.admission import Admission
from unmask.serving.connection import unless_disconnected
from unmask.serving.errors import Problem
from unmask.serving.keep_alive import KeepAlive
from unmask.serving.trace import current_trace

EVENT_STREAM = "text/event-stream"
COMMENT = b": keep-alive\n\n"  # an event without data would crash client libraries
DONE = b"data: [DONE]\n\n"


def data(payload: msgspec.Struct, event: str = "") -> bytes:
    """One event that carries ``payload`` as JSON; of a kind of its own, if it has a name."""
    named = b"event: " + event.encode() + b"\n" if event else b""
    return named + b"data: " + msgspec.json.encode(payload) + b"\n\n"


class StreamEncoder(Protocol):
    """A dialect's state machine: deltas of answers in, events out. It does no I/O.

    ``keep_alive`` is what may be sent at any time and says nothing; None if the dialect has nothing of the kind.
    """

    media_type: ClassVar[str]
    keep_alive: ClassVar[bytes | None]

    def start(self) -> Sequence[bytes]:
        """Events before any text."""

    def step(self, number: int, delta: AnswerDelta) -> Sequence[bytes]:
        """Events for ``delta`` of request ``number``; a finished request's last ones included."""

    def end(self) -> Sequence[bytes]:
        """Events after all requests have finished."""

    def fail(self, problem: Problem) -> bytes:
        """The one event that tells of an error instead of all that was to come."""

    @staticmethod
    def refuse(problem: Problem) -> bytes:
        """The same where nothing has come yet: the request was not even begun."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A request whose model is there: its ``admission``, and what writes its answers.

    ``before_end``: what is to be done once all answers are there, before the last events tell so.
    """

    admission: Admission
    encoder: StreamEncoder
    before_end: Callable[[], Awaitable[None]] | None = None


class EventStream(Response):
    """Runs an admission and sends its answers as they come. When the client leaves, all ends at once."""

    def __init__(
        self,
        request: Request,
        kind: type[StreamEncoder],
        begin: Callable[[], Coroutine[Any, Any, Begun]],
        waiting_for: Callable[[], str],
    ) -> None:
        """``begin`` waits for the model and gives an encoder of that ``kind``; it raises ``ClientDisconnect`` if nobody
        waits any more. ``waiting_for``: what it waits for, in words, "" for nothing that is worth telling.
        """
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(headers=headers, media_type=kind.media_type)
        del self.headers["content-length"]
        self._kind = kind
        self._begin = begin
        self._waiting_for = waiting_for
        self._keep_alive_seconds: float = request.app.state.settings.keep_alive_seconds
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. What fails before its first byte is an HTTP error, then an event in the stream."""
        begun: Begun | None = None
        try:
            begun = await self._begun(send)
            with begun.admission.running():
                last = await unless_disconnected(receive, self._send_events(begun, send))
        except ClientDisconnect:
            if not self._started:
                raise
            current_trace().left()
            return
        except Exception as error:
            if not self._started:
                raise
            problem = Problem.of(error)
            current_trace().failed(problem.code, problem.message)
            last = self._kind.refuse(problem) if begun is None else begun.encoder.fail(problem)
        await _send(send, last, more=False)

    async def _begun(self, send: Send) -> Begun:
        """What ``begin`` gives. A client that waits for long gets the response's head, and is told what for."""
        beginning = asyncio.ensure_future(self._begin())
        try:
            while not beginning.done():
                await asyncio.wait({beginning}, timeout=self._keep_alive_seconds)
                if not beginning.done():
                    await self._start(send)
                    await self._keep_alive(send, self._waiting_for())
            return beginning.result()
        finally:
            beginning.cancel()
            await asyncio.gather(beginning, return_exceptions=True)

    async def _start(self, send: Send) -> None:
        if not self._started:
            self._started = True
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

    async def _keep_alive(self, send: Send, words: str = "") -> None:
        if self._kind.keep_alive is not None:
            comment = f": {words}\n".encode() if words else b""
            await _send(send, comment + self._kind.keep_alive)

    async def _send_events(self, begun: Begun, send: Send) -> bytes:
        """All events but the last, which are returned. Those that come together are sent together: it costs less."""
        admission, encoder, trace = begun.admission, begun.encoder, current_trace()
        if not self._started and await admission.refused():
            await admission.next()  # raises why, while the response can still say so
        await self._start(send)
        await _send(send, b"".join(encoder.start()))
        keep_alive = KeepAlive(self._keep_alive_seconds, partial(self._keep_alive, send))
        async with keep_alive.running():
            while not admission.finished:
                number, delta = await admission.next()
                trace.heard(delta)
                if events := encoder.step(number, delta):
                    await _send(send, b"".join(events))
                    keep_alive.said()
        if begun.before_end is not None:
            await begun.before_end()
        return b"".join(encoder.end())


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})

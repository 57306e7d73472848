"""Server-sent events: bytes on the wire, comments during silence, and the end when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unmask.answers.answer import AnswerDelta
from unmask.serving.admission import Admission
from unmask.serving.connection import unless_disconnected
from unmask.serving.errors import Problem

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


class EventStream(Response):
    """Runs an admission and sends its answers as they come. When the client leaves, all ends at once."""

    def __init__(
        self,
        request: Request,
        admission: Admission,
        encoder: StreamEncoder,
        before_end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``before_end``: what is to be done once all answers are there, before the last events tell so."""
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
        super().__init__(headers=headers, media_type=encoder.media_type)
        del self.headers["content-length"]
        self._admission = admission
        self._encoder = encoder
        self._keep_alive_seconds: float = request.app.state.settings.keep_alive_seconds
        self._before_end = before_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. What fails before its first byte is an HTTP error, then an event in the stream."""
        started = False
        try:
            with self._admission.running():
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                started = True
                await unless_disconnected(receive, self._send_events(send))
        except ClientDisconnect:
            return
        except Exception as error:
            if not started:
                raise
            await _send(send, self._encoder.fail(Problem.of(error)))
        await _send(send, b"", more=False)

    async def _send_events(self, send: Send) -> None:
        for event in self._encoder.start():
            await _send(send, event)
        while not self._admission.finished:
            try:
                async with asyncio.timeout(self._keep_alive_seconds):
                    number, delta = await self._admission.next()
            except TimeoutError:
                if self._encoder.keep_alive is not None:
                    await _send(send, self._encoder.keep_alive)
                continue
            for event in self._encoder.step(number, delta):
                await _send(send, event)
        if self._before_end is not None:
            await self._before_end()
        for event in self._encoder.end():
            await _send(send, event)


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})

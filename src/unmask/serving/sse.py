"""Server-sent events: bytes on the wire, comments during silence, and the end when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from unmask.serving.connection import stop, unless_disconnected

DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"  # a comment; an event without data would crash client libraries


def data(payload: msgspec.Struct) -> bytes:
    """One event that carries ``payload`` as JSON."""
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


class EventStream(Response):
    """Sends ``events`` as they come. When the client leaves, ``events`` is closed at once.

    ``held`` is entered for the life of the response: it holds what the request must give back.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        held: AbstractContextManager[object],
        keep_alive_seconds: float,
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._held = held
        self._keep_alive_seconds = keep_alive_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, unless the client disconnects."""
        with self._held:
            try:
                await unless_disconnected(receive, self._send_all(send))
            except ClientDisconnect:
                return

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(with_keep_alive(self._events, self._keep_alive_seconds)) as frames:
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def with_keep_alive(events: AsyncGenerator[bytes, None], seconds: float) -> AsyncGenerator[bytes, None]:
    """``events``, and a comment line whenever none came for ``seconds``."""
    async with aclosing(events):
        while True:
            upcoming = asyncio.ensure_future(anext(events))
            try:
                while not (await asyncio.wait({upcoming}, timeout=seconds))[0]:
                    yield _KEEP_ALIVE
                event = upcoming.result()
            except StopAsyncIteration:
                return
            finally:
                await stop(upcoming)
            yield event

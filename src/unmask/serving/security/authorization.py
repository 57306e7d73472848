"""Lets pass what carries a key that may do it, and says what the key has left."""

from __future__ import annotations

import time
from collections.abc import Iterator

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.errors import UnmaskError
from unmask.serving.errors import ErrorResponder
from unmask.serving.ledger import current_ledger
from unmask.serving.security.account import KeyAccount
from unmask.serving.security.key_ring import KeyRing
from unmask.serving.security.needs import Needs
from unmask.serving.server_metrics import ServerMetrics


class Authorization:
    """Asks for a key that has the scope which a request needs; for metrics only if there is a key file.

    A key comes as ``Authorization: Bearer <key>`` or ``x-api-key: <key>``. The request's ledger charges its account.
    """

    def __init__(
        self, app: ASGIApp, ring: KeyRing, needs: Needs, metrics: ServerMetrics, errors: ErrorResponder
    ) -> None:
        self._app = app
        self._ring = ring
        self._metrics = metrics
        self._errors = errors
        self._needs = needs
        self._open_metrics = ring.path is None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        need = self._needs.of(scope)
        if scope["type"] != "http" or need == "nothing" or (need == "metrics" and self._open_metrics):
            return await self._app(scope, receive, send)
        account: KeyAccount | None = None

        async def send_with_limits(message: Message) -> None:
            if message["type"] == "http.response.start" and account is not None:
                MutableHeaders(scope=message).update(account.headers(time.monotonic()))
            await send(message)

        try:
            account = current_ledger().account = self._ring.find(_candidates(scope))
            account.begin(need, time.monotonic())
        except UnmaskError as refusal:
            if refusal.status == 429:
                self._metrics.refused(refusal.code)
            return await self._errors.response(scope["path"], refusal)(scope, receive, send_with_limits)
        await self._app(scope, receive, send_with_limits)


def _candidates(scope: Scope) -> Iterator[bytes]:
    """The keys that the request shows."""
    headers = Headers(scope=scope)
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        yield token.strip().encode("latin-1")
    if own := headers.get("x-api-key", ""):
        yield own.encode("latin-1")

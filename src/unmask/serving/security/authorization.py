"""Lets pass what carries a key that may do it, and says what the key has left."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.errors import UnmaskError
from unmask.serving.errors import ErrorResponder
from unmask.serving.ledger import current_ledger
from unmask.serving.security import key
from unmask.serving.security.account import KeyAccount
from unmask.serving.security.key_ring import KeyRing
from unmask.serving.server_metrics import ServerMetrics

_OPEN_PATHS = ("/", "/health", "/ready")
_OPEN_FOLDER = "/playground/"  # a page asks for the key itself, when it needs it
_METRICS = "/metrics"
_TELLING_GETS = re.compile(r"/v1/models(/.*)?|/tokenizer_info|/openapi\.json|/api/(tags|ps|version)")
_TELLING_POSTS = re.compile(r"/tokenize|/detokenize|/v1/messages/count_tokens|/api/show")


class Authorization:
    """Asks for a key everywhere but at the playground page, health and readiness; at metrics if there is a key file.

    A key comes as ``Authorization: Bearer <key>`` or ``x-api-key: <key>``. The request's ledger charges its account.
    """

    def __init__(self, app: ASGIApp, ring: KeyRing, metrics: ServerMetrics, errors: ErrorResponder) -> None:
        self._app = app
        self._ring = ring
        self._metrics = metrics
        self._errors = errors
        self._open = _OPEN_PATHS if ring.path is not None else (*_OPEN_PATHS, _METRICS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] in self._open or scope["path"].startswith(_OPEN_FOLDER):
            return await self._app(scope, receive, send)
        account: KeyAccount | None = None

        async def send_with_limits(message: Message) -> None:
            if message["type"] == "http.response.start" and account is not None:
                MutableHeaders(scope=message).update(account.headers(time.monotonic()))
            await send(message)

        try:
            account = current_ledger().account = self._ring.find(_candidates(scope))
            account.begin(needed_scope(scope["method"], scope["path"]), time.monotonic())
        except UnmaskError as refusal:
            if refusal.status == 429:
                self._metrics.refused(refusal.code)
            return await self._errors.response(scope["path"], refusal)(scope, receive, send_with_limits)
        await self._app(scope, receive, send_with_limits)


def needed_scope(method: str, path: str) -> key.Scope:
    """What a request takes. Whatever is not known to tell of the model alone takes the most: answers that are kept,
    for one, are as good as made.
    """
    if path == _METRICS:
        return "metrics"
    telling = _TELLING_GETS if method in ("GET", "HEAD") else _TELLING_POSTS
    return "models" if telling.fullmatch(path) else "generate"


def _candidates(scope: Scope) -> Iterator[bytes]:
    """The keys that the request shows."""
    headers = Headers(scope=scope)
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and token.strip():
        yield token.strip().encode("latin-1")
    if own := headers.get("x-api-key", ""):
        yield own.encode("latin-1")

"""One line for each request: who, what, how long and how much. Never what was asked or answered, and never a key."""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.serving.ledger import current_ledger

_PROBES = ("/health", "/ready", "/metrics")  # asked all the time, by machines
_LEFT = 499  # the client was gone before it had an answer

_log = structlog.get_logger()


class AccessLog:
    """Logs every request at its end; of probes those that failed. Path and id come from the context of the log."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun = time.perf_counter()
        status, sent = _LEFT, 0

        async def send_and_count(message: Message) -> None:
            nonlocal status, sent
            status = message.get("status", status)
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        except Exception:
            status = 500 if status == _LEFT else status
            raise
        finally:
            if status >= 400 or scope["path"] not in _PROBES:
                _write(scope, status, sent, time.perf_counter() - begun)


def _write(scope: Scope, status: int, sent: int, seconds: float) -> None:
    ledger = current_ledger()
    told = {
        "key": ledger.payer,
        "prompt_tokens": ledger.prompt_tokens,
        "completion_tokens": ledger.completion_tokens,
        "finish": ",".join(dict.fromkeys(ledger.ends)),
    }
    _log.info(
        "request",
        client=scope["client"][0] if scope.get("client") else "",
        method=scope["method"],
        status=status,
        ms=round(seconds * 1000, 1),
        bytes=sent,
        **{name: value for name, value in told.items() if value},
    )

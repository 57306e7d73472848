"""Writes a record of each request that asks for work, once it may be served at all."""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.serving.journal import Journal, RequestRecord
from unmask.serving.ledger import current_ledger
from unmask.serving.trace import tracing

OPERATION = "/unmask/"  # where operators ask, of the journal too


class Journalling:
    """Records every POST but operators' own. Path and id come from the context of the log.

    Stands inside what refuses requests for their keys: who has none cannot push others' records out.
    """

    def __init__(self, app: ASGIApp, journal: Journal) -> None:
        self._app = app
        self._journal = journal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"].startswith(OPERATION):
            return await self._app(scope, receive, send)
        known = structlog.contextvars.get_contextvars()
        ledger = current_ledger()
        record = RequestRecord(id=known["request_id"], at=time.time(), path=known["path"], key=ledger.payer)
        self._journal.add(record)

        async def send_and_note(message: Message) -> None:
            record.status = message.get("status", record.status)
            await send(message)

        with tracing(record) as trace:
            try:
                await self._app(scope, receive, send_and_note)
            except Exception as error:
                trace.failed("internal_error", f"An unexpected {type(error).__name__}; the server's log tells more.")
                raise
            finally:
                trace.ended(ledger)

"""Whom a request is served for: tenants share the engine fairly."""

from __future__ import annotations

import hashlib

from fastapi import Request

from unmask.serving.ledger import current_ledger


def tenant_of(request: Request, user: str | None) -> str:
    """The tenant: its API key and the ``user`` that the body names, hashed; "" for a request with neither.

    A key goes by its name. On a server without keys both are the client's own word: they keep apart clients that mean
    no harm, and bound nobody who takes a new name for each request. A key that a client sends there goes no further.
    """
    key = current_ledger().payer or request.headers.get("authorization", "") or request.headers.get("x-api-key", "")
    if not key and not user:
        return ""
    return hashlib.sha256(f"{key}\0{user or ''}".encode()).hexdigest()[:16]

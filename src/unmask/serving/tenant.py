"""Whom a request is served for: tenants share the engine fairly."""

from __future__ import annotations

import hashlib

from fastapi import Request


def tenant_of(request: Request, user: str | None) -> str:
    """The tenant: its bearer token and the ``user`` that the body names, hashed; "" for a request with neither.

    The token's own text goes no further. On a server without keys both are the client's own word: they keep apart
    clients that mean no harm, and bound nobody who takes a new name for each request.
    """
    token = request.headers.get("authorization", "")
    if not token and not user:
        return ""
    return hashlib.sha256(f"{token}\0{user or ''}".encode()).hexdigest()[:16]

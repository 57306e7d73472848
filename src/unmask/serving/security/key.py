"""An API key: what a client shows, and what the server keeps of it."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from unmask.terms import Priority

Scope = Literal["generate", "models", "metrics", "manage"]
SCOPES: tuple[Scope, ...] = ("generate", "models", "metrics", "manage")
DEFAULT_SCOPES: tuple[Scope, ...] = ("generate", "models")

KEY_PREFIX = "unmask_"  # so that people, and tools that look for leaked secrets, know one when they see it
_SECRET_BYTES = 32

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

_Name = Annotated[str, Meta(pattern=rf"\A{NAME}\Z")]
_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Limit = Annotated[int, Meta(ge=1, le=10**12)]
_Time = Annotated[datetime, Meta(tz=True)]


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One key as the key file has it; limits of None are none.

    ``sha256``: digest of the key, in hex. ``priority``: the most urgent one that its requests may have.
    """

    name: _Name
    sha256: _Digest
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1)] = DEFAULT_SCOPES
    requests_per_minute: _Limit | None = None
    tokens_per_minute: _Limit | None = None
    tokens_per_day: _Limit | None = None
    priority: Priority = "interactive"
    created: _Time | None = None
    expires: _Time | None = None


def new_secret() -> str:
    """A key that nobody has: 256 random bits."""
    return KEY_PREFIX + secrets.token_hex(_SECRET_BYTES)


def digest(secret: bytes) -> str:
    """What is kept of a key. A fast hash is enough: nobody tries 2^256 keys, as one would try people's passwords."""
    return hashlib.sha256(secret).hexdigest()

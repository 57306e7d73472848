"""What every OpenAI response and chunk begins with, and how it becomes an HTTP response."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from starlette.responses import Response


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of one response; the same on all chunks of a stream."""

    id: str
    created: int
    model: str

    @classmethod
    def new(cls, prefix: str, model: str) -> Head:
        """A head with a fresh id and the present time."""
        return cls(f"{prefix}-{secrets.token_hex(12)}", int(time.time()), model)


def json_response(body: msgspec.Struct, headers: Mapping[str, str] | None = None) -> Response:
    """``body`` as a successful HTTP response."""
    return Response(msgspec.json.encode(body), headers=headers, media_type="application/json")

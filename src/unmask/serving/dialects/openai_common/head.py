"""What every OpenAI response and chunk begins with."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Head:
    """Identity of one response; the same on all chunks of a stream."""

    id: str
    created: int
    model: str

    @classmethod
    def new(cls, prefix: str, model: str) -> Head:
        """A head with a fresh id, which begins with ``prefix``, and the present time."""
        return cls(prefix + secrets.token_hex(12), int(time.time()), model)

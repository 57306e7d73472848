"""What happened to the latest requests: names, times, counts and settings, never what was asked or answered."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

MOST_REQUESTS = 1000

Outcome = Literal["running", "answered", "failed", "left"]


class Phases(msgspec.Struct, kw_only=True):
    """Where a request's time went, in seconds; None for what it did not come to.

    ``model_wait``: until its model was being loaded, or was its own: behind others, for room. ``model_load``: for the
    load. ``engine_queue``: in the engine, before its first forward. ``first``: from the request's arrival to the first
    part of an answer, a block or a token, as the server had it. ``total``: from its arrival to its end.
    """

    model_wait: float | None = None
    model_load: float | None = None
    engine_queue: float | None = None
    first: float | None = None
    total: float | None = None


class RequestError(msgspec.Struct):
    """Why a request failed, in the catalogue's words."""

    code: str
    message: str


class RequestRecord(msgspec.Struct, kw_only=True):
    """One request. ``at`` is in seconds since 1970.

    ``asked``: the model that it named, "" for none; ``served``: the one that it got, on ``lane``, by ``route``;
    ``found``: in which state that was when the request came. ``finish``: how each of its answers ended. ``forwards``
    and ``blocks``, left out where the engine has none, and tokens are those of all answers, ``applied`` the plain
    settings of one. ``status``: that of the HTTP response, 0 as long as it has not begun.
    """

    id: str
    at: float
    path: str
    key: str
    outcome: Outcome = "running"
    status: int = 0
    error: RequestError | None = None
    finish: list[str] = []
    asked: str = ""
    served: str = ""
    lane: str = ""
    route: str = ""
    found: str = ""
    phases: Phases = msgspec.field(default_factory=Phases)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    forwards: int | UnsetType = UNSET
    blocks: int | UnsetType = UNSET
    applied: dict[str, Any] = {}
    warnings: list[str] = []


class Journal:
    """The latest ``most`` requests."""

    def __init__(self, most: int = MOST_REQUESTS) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=most)

    def add(self, record: RequestRecord) -> None:
        """Keep ``record``, which goes on changing until its request ends; the oldest one goes if need be."""
        self._records.append(record)

    def newest(self, count: int) -> list[RequestRecord]:
        """The latest ``count``, the newest first."""
        return list(itertools.islice(self._newest(), count))

    def find(self, request_id: str) -> RequestRecord | None:
        """The newest one of that id: clients choose ids themselves, and may choose one again."""
        return next((record for record in self._newest() if record.id == request_id), None)

    def _newest(self) -> Iterator[RequestRecord]:
        return reversed(self._records)

"""What operators are told, and the queries that they may send."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import ConfigDict, Field

from unmask.gateway.log_tail import POSITION
from unmask.serving.journal import MOST_REQUESTS, RequestRecord
from unmask.serving.wire import WireModel

MOST_LINES = 10_000


class WhyNot(msgspec.Struct, frozen=True):
    """Why a model is not served."""

    code: str
    message: str
    hint: str


class ModelTold(msgspec.Struct, frozen=True, kw_only=True):
    """A model of the server, loaded or not. Times are seconds since 1970; null is for what is not so.

    ``state``: ``absent``, ``loading``, ``ready``, ``unreachable`` for one elsewhere that was so the last time,
    ``stopping``, ``failed``, or ``refused``, of which only ``why_not`` is told. ``users`` have it, ``waiting`` want it.
    ``size``: bytes that it takes in memory. ``loaded``: the share of it that is, while it loads. ``since``: when the
    state began. ``expires_at``: when it goes unless somebody asks for it, ``keep``: the seconds that it stays without
    users, null for ever. ``failure``: its last one, and ``retry_at`` when it is tried again at the earliest. ``loads``:
    how often it was loaded, ``load_seconds``: what the last one took. ``pid``: of the child that serves it, whose log
    is at ``log``.
    """

    name: str
    aliases: list[str] = []
    adapters: list[str] = []
    state: str
    lane: str | UnsetType = UNSET
    paradigm: str | UnsetType = UNSET
    users: int | UnsetType = UNSET
    waiting: int | UnsetType = UNSET
    size: int | UnsetType = UNSET
    loaded: float | UnsetType | None = UNSET
    since: float | UnsetType | None = UNSET
    expires_at: float | UnsetType | None = UNSET
    keep: float | UnsetType | None = UNSET
    pinned: bool | UnsetType = UNSET
    failure: str | UnsetType | None = UNSET
    retry_at: float | UnsetType | None = UNSET
    loads: int | UnsetType = UNSET
    load_seconds: float | UnsetType = UNSET
    pid: int | UnsetType | None = UNSET
    log: str | UnsetType | None = UNSET
    why_not: WhyNot | UnsetType = UNSET


class ModelList(msgspec.Struct, frozen=True):
    """All models."""

    models: list[ModelTold]


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """What a stop ended: the model, or its load, as it ``was``, with those who used it and waited for it."""

    name: str
    was: str
    users: int
    waiting: int
    model: ModelTold


class LogTold(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a log, the newest last; ``position``: what to send as ``after`` for those that come next. ``lost``: how
    many of the running child's the disk did not take.
    """

    name: str
    log: str
    lines: list[str]
    position: str
    lost: int


class RequestList(msgspec.Struct, frozen=True):
    """Requests, the newest first."""

    requests: list[RequestRecord]


class LogQuery(WireModel):
    """Which lines: the last ones, or all that came ``after`` a position."""

    model_config = ConfigDict(strict=False)

    lines: Annotated[int, Field(ge=1, le=MOST_LINES)] | None = None
    after: Annotated[str, Field(pattern=rf"^{POSITION}$")] | None = None


class RequestsQuery(WireModel):
    """How many requests."""

    model_config = ConfigDict(strict=False)

    limit: Annotated[int, Field(ge=1, le=MOST_REQUESTS)] = 20

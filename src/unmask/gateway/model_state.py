"""One model of those that may be loaded: where it is in its life, who uses it, and who waits for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from unmask.gateway.breaker import Breaker

State = Literal["absent", "loading", "ready", "stopping", "failed", "unreachable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelState:
    """A model as others see it. Times are in seconds, on the clock of whoever tells.

    ``users`` have it, ``waiting`` want it. ``unreachable`` is one elsewhere that is taken up, and that could not be
    reached the last time; ``failure`` says why. ``since``: when ``state`` began; None before the first load.
    ``expires_at``: when it goes unless somebody asks for it; None while it is used, or if it stays. ``retry_at``: when
    it is tried again at the earliest, if it has failed. ``failure``: what its last failure was, until it has worked
    again. ``loads``: how often it was loaded, or tried to be. ``keep_seconds``: how long it stays without users,
    None for ever. ``load_seconds``: what its last load took.
    """

    name: str
    state: State
    users: int
    waiting: int
    size_bytes: int
    since: float | None
    expires_at: float | None
    retry_at: float | None
    failure: str
    loads: int
    keep_seconds: float | None
    load_seconds: float


@dataclass(slots=True, kw_only=True, eq=False)
class ModelRecord:
    """A model as ``Residency`` keeps it.

    ``users`` and ``waiting`` are tickets, the latter with the oldest first. ``keep_seconds``: how long it stays
    without users, ``idle_seconds`` unless told otherwise in this life; None for ever. ``load_seconds``: what its last
    load took.
    """

    name: str
    size_bytes: int
    idle_seconds: float | None
    pinned: bool
    state: State = "absent"
    since: float = 0.0
    last_used: float = 0.0
    load_seconds: float = 0.0
    loads: int = 0
    keep_seconds: float | None = field(init=False)
    users: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)
    breaker: Breaker = field(default_factory=Breaker)

    def __post_init__(self) -> None:
        self.keep_usual()

    def become(self, state: State, now: float) -> None:
        """Enter the next state."""
        self.state, self.since = state, now

    def keep_usual(self) -> None:
        """Stay as long without users as was said when the model was added; a pinned one stays."""
        self.keep_seconds = None if self.pinned else self.idle_seconds

    @property
    def holds_room(self) -> bool:
        """Whether its memory is taken."""
        return self.state in ("loading", "ready", "stopping")

    @property
    def idle(self) -> bool:
        """Whether it is there and nobody uses it."""
        return self.state == "ready" and not self.users

    @property
    def expires_at(self) -> float | None:
        """When it goes if nobody asks for it."""
        if not self.idle or self.keep_seconds is None:
            return None
        return self.last_used + self.keep_seconds

    def seen(self, now: float) -> ModelState:
        """What to tell of it."""
        return ModelState(
            name=self.name,
            state=self.state,
            users=len(self.users),
            waiting=len(self.waiting),
            size_bytes=self.size_bytes,
            since=self.since if self.loads else None,
            expires_at=self.expires_at,
            retry_at=self.breaker.until if self.state == "failed" else None,
            failure=self.breaker.reason(now),
            loads=self.loads,
            keep_seconds=self.keep_seconds,
            load_seconds=self.load_seconds,
        )

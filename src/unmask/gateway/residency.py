"""Which models are in memory. Pure: time is passed in; what happens outside comes in as events, decisions go out.

A request *asks* for a model with a ticket and *leaves* at its end, or when it no longer wants to wait. A model that is
not there is loaded, once, however many ask; a load that nobody waits for any more is broken off. Asked for next is the
model whose first waiting request is the oldest: none that needs less overtakes it, so that a large one gets its turn.

Where there is no room, idle models go, the least recently used first; none that is loading or has users ever does. So
that two models that do not fit together are not swapped for each request, while others wait a model has a *turn*:

- It serves whoever asks for it, for ``hold_seconds`` from when it was ready; for as long as its load took if that is
  longer, so that no more time is spent on loading than not.
- When the turn is over it takes no new requests: they wait behind the other model. It goes once its last request ends.
- A model that nobody has used for ``linger_seconds`` goes before its turn is over.

So while requests keep coming, a model is loaded at most once in ``hold_seconds``. And nobody starves: each of the k
models that are asked for before it is loaded once at most, and no wait among these k + 1 is longer than a turn, the
longest request under way, a stop and a load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from unmask.errors import AllModelsBusyError, EngineUnavailableError, UnmaskError
from unmask.gateway.model_state import ModelRecord, ModelState
from unmask.gateway.room import Room


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidencyLimits:
    """``memory_bytes``, ``max_resident``: what models may take together, and how many may be there; None is no limit.

    ``max_waiting``: the most requests that wait for one model, at least 1.
    """

    memory_bytes: int | None = None
    max_resident: int | None = None
    max_waiting: int = 64
    hold_seconds: float = 15.0
    linger_seconds: float = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model; ``loaded`` or ``load_failed`` shall tell."""

    name: str


@dataclass(frozen=True, slots=True)
class End:
    """Stop a model, or break its load off; ``closed`` shall tell when its memory is free."""

    name: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A request has the model that it asked for."""

    ticket: int
    name: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """A request does not get the model that it asked for."""

    ticket: int
    error: UnmaskError


Decision = Load | End | Grant | Refuse


class Residency:
    """Every event returns what is to be done now.

    ``due``: when ``tick`` has something to decide if nothing happens before. Times never go backwards, tickets grow.
    """

    def __init__(self, limits: ResidencyLimits) -> None:
        self._limits = limits
        self._room = Room(limits.memory_bytes, limits.max_resident)
        self._models: dict[str, ModelRecord] = {}
        self._of: dict[int, ModelRecord] = {}  # by ticket, of those that wait or have a model
        self.due: float | None = None

    def add(self, name: str, *, size_bytes: int, idle_seconds: float | None, pinned: bool = False) -> None:
        """Know a model, which takes ``size_bytes`` when loaded and goes after ``idle_seconds`` without users.

        A pinned one stays once it is loaded. Raises ``InsufficientMemoryError`` if not all pinned ones fit together.
        """
        assert name not in self._models, name
        model = ModelRecord(name=name, size_bytes=size_bytes, idle_seconds=idle_seconds, pinned=pinned)
        if pinned and (refusal := self._room.refusal(model, self._pinned(model))):
            raise refusal
        self._models[name] = model

    def states(self, now: float) -> list[ModelState]:
        """All models, in the order in which they were added."""
        return [model.seen(now) for model in self._models.values()]

    def state(self, name: str, now: float) -> ModelState:
        """One of them."""
        return self._models[name].seen(now)

    def ask(self, ticket: int, name: str, now: float) -> list[Decision]:
        """A request wants a model."""
        model = self._models[name]
        if len(model.waiting) >= self._limits.max_waiting:
            return [Refuse(ticket, self._busy(model)), *self._settle(now)]
        model.waiting.append(ticket)
        self._of[ticket] = model
        return self._settle(now)

    def leave(self, ticket: int, now: float) -> list[Decision]:
        """A request has ended, or waits no longer. Nothing, if it was refused, or its model is gone already."""
        model = self._of.pop(ticket, None)
        if model is None:
            return []
        if ticket in model.users:
            model.users.remove(ticket)
            model.last_used = now
        else:
            model.waiting.remove(ticket)
        return self._settle(now)

    def loaded(self, name: str, now: float) -> list[Decision]:
        """A model is there: all who waited for it have it."""
        model = self._models[name]
        assert model.state == "loading", model.state
        model.load_seconds = now - model.since
        model.breaker.up(now)
        model.become("ready", now)
        return self._settle(now)

    def load_failed(self, name: str, error: UnmaskError, now: float) -> list[Decision]:
        """A model could not be loaded, and left nothing in memory: all who waited for it are told why, and when it is
        tried again if that may help.
        """
        model = self._models[name]
        assert model.state == "loading", model.state
        model.breaker.failed(str(error), now)
        if error.status == 503 and error.retry_after is None:
            error.retry_after = math.ceil(model.breaker.until - now)
        model.become("failed", now)
        model.keep_usual()
        return [*self._refuse(model, error), *self._settle(now)]

    def crashed(self, name: str, reason: str, now: float) -> list[Decision]:
        """A model that was ready has died by itself; ``closed`` shall tell when its memory is free."""
        model = self._models[name]
        assert model.state == "ready", model.state
        model.breaker.failed(reason, now)
        self._end(model, now)
        return self._settle(now)

    def closed(self, name: str, now: float) -> list[Decision]:
        """A model that was stopped or has died, or whose load was broken off, has left the memory."""
        model = self._models[name]
        assert model.state == "stopping", model.state
        model.become("failed" if model.breaker.failures(now) else "absent", now)
        return self._settle(now)

    def keep(self, name: str, seconds: float | None, now: float) -> list[Decision]:
        """Keep a model for so long without users, in this life of it; 0: until it is idle, None: for ever.

        It goes before for another one's sake, unless it is pinned. Nothing, if it is neither there nor asked for.
        """
        model = self._models[name]
        if model.state in ("loading", "ready") or model.waiting:
            model.keep_seconds = seconds
        return self._settle(now)

    def stop(self, name: str, now: float) -> list[Decision]:
        """Stop a model at once, whoever uses it; those who wait for it are refused."""
        model = self._models[name]
        error = EngineUnavailableError(f"Model '{name}' was stopped.", hint="Ask again to have it loaded.")
        decisions: list[Decision] = [*self._refuse(model, error)]
        if model.state == "ready":
            decisions.append(self._stop(model, now))
        return decisions + self._settle(now)

    def tick(self, now: float) -> list[Decision]:
        """Time has passed."""
        return self._settle(now)

    def _settle(self, now: float) -> list[Decision]:
        """All that can be decided now."""
        decisions = [*self._end_unwanted(now), *self._load_next(now)]
        head = next(iter(self._line(now)), None)
        leavers = self._leavers(head, now) if head else []
        decisions += [self._stop(model, now) for model in leavers if self._may_go(model, now)]
        yielding = [model for model in leavers if now >= self._turn_ends(model)]
        for model in self._models.values():
            if model.state == "ready" and model not in yielding:
                decisions += self._grant(model)
        self.due = min((time for time in self._times(head) if time > now), default=None)
        return decisions

    def _end_unwanted(self, now: float) -> Iterator[Decision]:
        """Loads and models that nobody wants any more, and requests for what cannot be had."""
        for model in self._models.values():
            if model.state == "loading" and not model.waiting:
                self._end(model, now)
                yield End(model.name)
            elif model.expires_at is not None and model.expires_at <= now and not model.waiting:
                yield self._stop(model, now)
            elif model.waiting and not model.holds_room and (refusal := self._refusal(model, now)):
                yield from self._refuse(model, refusal)

    def _line(self, now: float) -> list[ModelRecord]:
        """The models that are asked for and may be loaded, the one asked for first before the others."""
        wanted = [model for model in self._models.values() if model.waiting and not model.holds_room]
        return sorted((model for model in wanted if model.breaker.until <= now), key=lambda model: model.waiting[0])

    def _load_next(self, now: float) -> Iterator[Decision]:
        """Load those of the line that there is room for, up to the first that has none."""
        for model in self._line(now):
            if not self._room.fits(model, [one for one in self._models.values() if one.holds_room]):
                return
            model.become("loading", now)
            model.loads += 1
            yield Load(model.name)

    def _leavers(self, head: ModelRecord, now: float) -> list[ModelRecord]:
        """Who has to go for ``head``, if not at once: idle ones by their last use, then those there for longest.

        None that is asked for by somebody who has waited for longer than those who ask for ``head``.
        """
        present = [model for model in self._models.values() if model.state in ("loading", "ready")]
        ready = [model for model in present if model.state == "ready" and not model.pinned]
        ready = [model for model in ready if not model.waiting or model.waiting[0] > head.waiting[0]]
        idle = [model for model in ready if self._lingered(model, now)]
        busy = [model for model in ready if model not in idle]
        idle.sort(key=lambda model: model.last_used)
        busy.sort(key=lambda model: model.since)
        return self._room.leavers(head, present, [*idle, *busy])

    def _may_go(self, model: ModelRecord, now: float) -> bool:
        """Whether a leaver goes at once."""
        return model.idle and (now >= self._turn_ends(model) or self._lingered(model, now))

    def _lingered(self, model: ModelRecord, now: float) -> bool:
        return model.idle and not model.waiting and now >= model.last_used + self._limits.linger_seconds

    def _turn_ends(self, model: ModelRecord) -> float:
        return model.since + max(self._limits.hold_seconds, model.load_seconds)

    def _times(self, head: ModelRecord | None) -> Iterator[float]:
        """When something may have to be decided."""
        for model in self._models.values():
            if model.expires_at is not None:
                yield model.expires_at
            if model.waiting and model.state == "failed":
                yield model.breaker.until
            if head and model.idle and not model.pinned:
                yield self._turn_ends(model)
                yield model.last_used + self._limits.linger_seconds

    def _grant(self, model: ModelRecord) -> Iterator[Decision]:
        while model.waiting:
            ticket = model.waiting.pop(0)
            model.users.add(ticket)
            yield Grant(ticket, model.name)

    def _refuse(self, model: ModelRecord, error: UnmaskError) -> Iterator[Decision]:
        while model.waiting:
            ticket = model.waiting.pop(0)
            del self._of[ticket]
            yield Refuse(ticket, error)

    def _stop(self, model: ModelRecord, now: float) -> Decision:
        model.breaker.stopped()
        self._end(model, now)
        return End(model.name)

    def _end(self, model: ModelRecord, now: float) -> None:
        """Its life is over, for its users as well."""
        model.become("stopping", now)
        model.keep_usual()
        for ticket in model.users:
            del self._of[ticket]
        model.users.clear()

    def _pinned(self, but: ModelRecord) -> list[ModelRecord]:
        return [model for model in self._models.values() if model.pinned and model is not but]

    def _refusal(self, model: ModelRecord, now: float) -> UnmaskError | None:
        """Why those who wait for ``model`` wait in vain."""
        return self._room.refusal(model, self._pinned(model)) or model.breaker.refusal(model.name, now)

    def _busy(self, model: ModelRecord) -> AllModelsBusyError:
        seconds = max(1, math.ceil(self._limits.hold_seconds))
        return AllModelsBusyError(
            f"{len(model.waiting)} requests wait for model '{model.name}' already.",
            hint=f"Try again in about {seconds} s, or allow models more memory.",
            retry_after=seconds,
        )

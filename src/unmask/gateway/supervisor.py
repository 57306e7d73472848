"""Models that are loaded when they are asked for, and go when their room is needed: ``residency.py`` brought to life.

``async with supervisor.hold(name) as resident`` is all that a request needs. All methods belong to one event loop.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import structlog

from unmask.errors import EngineUnavailableError, ModelNotFoundError, UnmaskError
from unmask.gateway.model_state import ModelState
from unmask.gateway.residency import Decision, End, Grant, Load, Refuse, Residency, ResidencyLimits
from unmask.shown import cut, shown

Progress = Callable[[float], None]

_log = structlog.get_logger()


class Resident(Protocol):
    """A model in memory: an engine of ours, or a child process that serves it."""

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""

    async def close(self) -> None:
        """End it and free its memory, alive or not, in bounded time; its requests end with an error."""

    async def wait_closed(self) -> str:
        """Wait until it takes no requests any more; why, in words that tell a user something. May be cancelled."""


R = TypeVar("R", bound=Resident)
T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Model(Generic[R]):
    """``life`` runs from the start of a load until the memory is free again; ``ending`` is set to end it."""

    name: str
    load: Callable[[Progress], Coroutine[Any, Any, R]]
    arrival: str
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    share: float = 0.0
    resident: R | None = None
    life: asyncio.Task[None] | None = None


class Supervisor(Generic[R]):
    """Models by name, of which those are in memory that are used, within ``limits``."""

    def __init__(self, limits: ResidencyLimits) -> None:
        self._residency = Residency(limits)
        self._models: dict[str, _Model[R]] = {}
        self._requests: dict[int, asyncio.Future[R]] = {}
        self._tickets = count()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def add(
        self,
        name: str,
        load: Callable[[Progress], Coroutine[Any, Any, R]],
        *,
        size_bytes: int,
        idle_seconds: float | None,
        pinned: bool = False,
        arrival: str = "model loaded",
    ) -> None:
        """Know a model, which takes ``size_bytes`` when loaded and goes after ``idle_seconds`` without users.

        ``load`` gives the model, telling the share that is loaded; where it raises or is cancelled it leaves nothing
        behind. How long it may take is its own business. A ``pinned`` model stays once it is loaded. ``arrival``: what
        the log says then. Raises ``InsufficientMemoryError`` if not all pinned ones fit together.
        """
        self._residency.add(name, size_bytes=size_bytes, idle_seconds=idle_seconds, pinned=pinned)
        self._models[name] = _Model(name, load, arrival)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[R]:
        """A model, loaded if need be, that stays as long as the context is open, unless it dies or is stopped.

        Raises what loading it met, ``InsufficientMemoryError`` if it can never be loaded, ``AllModelsBusyError`` if too
        many wait for it already, ``CircuitOpenError``, ``ModelNotFoundError``, or ``EngineUnavailableError`` if it is
        stopped meanwhile.
        """
        model = self._find(name)
        if model.resident is not None and model.life is not None and not model.resident.alive:
            await asyncio.wait([model.life])  # it has just died, and its life is about to tell
        if self._closed:
            raise EngineUnavailableError("The server is stopping.")
        ticket = next(self._tickets)
        granted: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._requests[ticket] = granted
        try:
            self._apply(self._residency.ask(ticket, name, self._now()))
            yield await granted
        finally:
            del self._requests[ticket]
            self._apply(self._residency.leave(ticket, self._now()))

    def resident(self, name: str) -> R | None:
        """What is in memory of a model that takes requests, or has died a moment ago; nothing of one that is gone."""
        return self._find(name).resident

    def loading(self, name: str) -> float | None:
        """The share of a model that is loaded, 0 to 1; None unless it is being loaded."""
        model = self._find(name)
        return model.share if self._residency.state(name, self._now()).state == "loading" else None

    def states(self) -> list[ModelState]:
        """All models, with times as seconds since 1970."""
        now = self._now()
        return [_dated(state, time.time() - now) for state in self._residency.states(now)]

    def state(self, name: str) -> ModelState:
        """One of them, in the same way."""
        now = self._now()
        return _dated(self._residency.state(self._find(name).name, now), time.time() - now)

    def keep(self, name: str, seconds: float | None) -> None:
        """From now until it goes, keep a model for so long without users; 0: until it is idle, None: for ever.

        It goes before for another one's sake, unless it is pinned. Nothing, if it is neither there nor asked for.
        """
        self._apply(self._residency.keep(self._find(name).name, seconds, self._now()))

    async def stop(self, name: str) -> None:
        """Stop a model, or its load, whoever uses it or waits for it; returns when its memory is free."""
        model = self._find(name)
        self._apply(self._residency.stop(name, self._now()))
        if self._residency.state(name, self._now()).state == "stopping" and model.life is not None:
            await asyncio.wait([model.life])

    async def close(self) -> None:
        """End everything, all at once; whoever waits gets an ``EngineUnavailableError``."""
        self._closed = True
        await asyncio.gather(*(self.stop(name) for name in self._models))

    def _find(self, name: str) -> _Model[R]:
        if name not in self._models:
            raise ModelNotFoundError(f"Model {shown(name)} is not served here.", param="model")
        return self._models[name]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _apply(self, decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            match decision:
                case Load(name):
                    model = self._models[name]
                    model.ending = asyncio.Event()
                    # It outlives the request that began it, whose log lines and ledger are none of its business.
                    model.life = asyncio.create_task(self._live(model), name=f"model {name}", context=Context())
                case End(name):
                    self._models[name].ending.set()
                case Grant(ticket, name):
                    resident = self._models[name].resident
                    assert resident is not None, name
                    if not self._requests[ticket].done():
                        self._requests[ticket].set_result(resident)
                case Refuse(ticket, error):
                    if not self._requests[ticket].done():
                        self._requests[ticket].set_exception(copy.copy(error))
        self._set_timer()

    def _set_timer(self) -> None:
        """Wake up when there is something to decide, and not before."""
        due = None if self._closed else self._residency.due
        if self._timer is not None:
            if self._timer.when() == due:
                return
            self._timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._wake, due)

    def _wake(self, due: float) -> None:
        self._timer = None
        self._apply(self._residency.tick(max(due, self._now())))  # timers may be early by the clock's resolution

    async def _live(self, model: _Model[R]) -> None:
        """One life of a model: it is loaded, is there until it dies or shall end, and is closed."""
        resident = await self._load(model)
        if resident is not None:
            if not model.ending.is_set():
                await self._be_there(model, resident)
            await _close(model.name, resident)
        elif not model.ending.is_set():
            return  # it could not be loaded
        self._apply(self._residency.closed(model.name, self._now()))

    async def _load(self, model: _Model[R]) -> R | None:
        """The model; None if it could not be loaded, which is told, or was broken off."""
        model.share, start = 0.0, self._now()

        def progress(share: float) -> None:
            model.share = min(max(share, 0.0), 1.0)

        try:
            resident = await _unless(model.ending, model.load(progress))
            if resident is not None:
                _log.info(model.arrival, model=model.name, seconds=round(self._now() - start, 1))
                return resident
            failure: UnmaskError = EngineUnavailableError(f"Loading '{model.name}' was broken off.")
        except UnmaskError as error:
            failure = error
        except Exception as error:
            _log.error("unexpected error while loading", model=model.name, exc_info=error)
            failure = EngineUnavailableError(f"Model '{model.name}' could not be loaded: {cut(error)}")
        if not model.ending.is_set():
            _log.warning("model not loaded", model=model.name, code=failure.code, reason=str(failure))
            self._apply(self._residency.load_failed(model.name, failure, self._now()))
        return None

    async def _be_there(self, model: _Model[R], resident: R) -> None:
        """Let requests have the model until it dies, which is told, or shall end."""
        model.resident = resident
        self._apply(self._residency.loaded(model.name, self._now()))
        try:
            reason = await _unless(model.ending, resident.wait_closed())
        except Exception as error:
            _log.error("unexpected error while waiting for a death", model=model.name, exc_info=error)
            reason = cut(error)
        model.resident = None
        if not model.ending.is_set():
            _log.warning("model died", model=model.name, reason=reason)
            self._apply(self._residency.crashed(model.name, reason or "it has died", self._now()))


def _dated(state: ModelState, start: float) -> ModelState:
    """``state`` with dates instead of moments of the loop's clock, which was 0 at ``start``."""
    since, expires_at, retry_at = (
        None if moment is None else start + moment for moment in (state.since, state.expires_at, state.retry_at)
    )
    return replace(state, since=since, expires_at=expires_at, retry_at=retry_at)


async def _unless(ending: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What ``work`` gives; None if it was cancelled, as it is once ``ending`` is set."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        waiting.cancel()
    await asyncio.wait([working])
    return None if working.cancelled() else working.result()


async def _close(name: str, resident: Resident) -> None:
    """Close a model; an error in that is a bug of its own, and no reason to keep its room."""
    try:
        await resident.close()
    except Exception as error:
        _log.error("unexpected error while closing", model=name, exc_info=error)
    _log.info("model closed", model=name)

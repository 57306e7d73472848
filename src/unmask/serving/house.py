"""All models of a server, by the names that requests have for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from unmask.errors import EngineUnavailableError, InvalidValueError, ModelNotFoundError, ShuttingDownError, UnmaskError
from unmask.gateway.model_state import ModelState
from unmask.gateway.residency import ResidencyLimits
from unmask.gateway.supervisor import Progress, Supervisor
from unmask.metrics import Metrics
from unmask.refusal import Refusal, without_folders
from unmask.serving.entry import Entry
from unmask.serving.listing import Listing
from unmask.serving.model import Model
from unmask.serving.resident import LoadedModel
from unmask.serving.server_metrics import ServerMetrics
from unmask.serving.telling import telling
from unmask.shown import shown

_AGAIN_SECONDS = 5.0

_MOST_TOLD = 8  # names, to somebody who asked for another
NO_LIMITS = ResidencyLimits()


class House:
    """The models that a server was started with; the only one is meant where a request names none.

    ``refused``: why others that were asked for are not served, by their names. Belongs to one event loop. Raises
    ``InsufficientMemoryError`` if not all pinned models fit together.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        refused: Mapping[str, Refusal] | None = None,
        limits: ResidencyLimits = NO_LIMITS,
    ) -> None:
        self.entries = entries
        self.refused = refused or {}
        self.metrics = ServerMetrics(self._metrics)
        self.stopping = False
        self._supervisor: Supervisor[LoadedModel] = Supervisor(limits)
        for entry in entries:
            self._supervisor.add(
                entry.name,
                entry.load,
                size_bytes=entry.size_bytes,
                idle_seconds=entry.stay.idle_seconds,
                pinned=entry.stay.pinned,
                arrival=entry.arrival,
            )
        self._keeping: list[asyncio.Task[None]] = []
        self._stopped: dict[str, asyncio.Event] = {}  # by somebody who wanted it, until they are loaded again

    async def preload(self, progress: Progress = lambda share: None) -> None:
        """Load what shall be there from the start, one after the other. Raises what loading a required one meets; what
        another one met is in the log.
        """
        for entry in self.entries:
            if not entry.stay.preload:
                continue
            try:
                async with telling(partial(self._supervisor.loading, entry.name), progress):
                    await self._load(entry)
            except UnmaskError:
                if entry.stay.required:
                    raise
            if entry.stay.pinned:
                self._keeping.append(asyncio.create_task(self._keep_loaded(entry)))

    async def _load(self, entry: Entry) -> None:
        async with self._supervisor.hold(entry.name):
            pass

    async def _keep_loaded(self, entry: Entry) -> None:
        """Load ``entry`` again whenever it has died, or could not be loaded: who waits until a server is ready sends no
        request meanwhile.
        """
        while True:
            resident = self._supervisor.resident(entry.name)
            if resident is not None:
                await resident.wait_closed()
            if entry.name in self._stopped:
                await self._stopped[entry.name].wait()
            try:
                await self._load(entry)
            except UnmaskError as error:
                await asyncio.sleep(error.retry_after or _AGAIN_SECONDS)

    @property
    def names(self) -> list[str]:
        """All names, in the order in which they were given."""
        return [listing.name for listing in self.listings()]

    def meant(self, name: str | None) -> str:
        """The name of the model that a request is for. Raises ``InvalidValueError`` if it names none of several."""
        if name is not None:
            return name
        if len(self.entries) > 1:
            raise InvalidValueError(
                f"'model' is missing, and {len(self.entries)} models are served here.",
                hint=f"Use {self._others('')}.",
                param="model",
            )
        return self.entries[0].name

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[Model]:
        """The model called ``name``, loaded for as long as it is held.

        Raises ``ModelNotFoundError``, why it was refused, ``ShuttingDownError``, or what ``Supervisor.hold`` raises.
        """
        entry, listing = self._find(name)
        async with AsyncExitStack() as held:
            try:
                if self.stopping:
                    raise ShuttingDownError
                loaded = await held.enter_async_context(self._supervisor.hold(entry.name))
            except UnmaskError as error:
                entry.metrics.rejected(error.code)
                error.message, error.hint = without_folders(error.message), without_folders(error.hint)
                raise
            if entry.name in self._stopped:
                self._stopped.pop(entry.name).set()
            yield loaded.model(listing.name)

    def loading(self, name: str) -> float | None:
        """The share of a model that is loaded; None unless it is being loaded. Raises ``ModelNotFoundError``."""
        return self._supervisor.loading(self._find(name)[0].name)

    def keep(self, name: str, seconds: float | None) -> None:
        """Keep a model that is held for so long without users; 0: until it is idle, None: for ever."""
        entry, _ = self._find(name)
        if not entry.stay.pinned:
            self._supervisor.keep(entry.name, seconds)

    def _find(self, name: str) -> tuple[Entry, Listing]:
        for entry in self.entries:
            if (listing := entry.find(name)) is not None:
                return entry, listing
        if name in self.refused:
            raise self.refused[name].answer(name)
        raise ModelNotFoundError(
            f"Model {shown(name)} is not served here.", hint=f"Use {self._others(name)}.", param="model"
        )

    def _others(self, name: str) -> str:
        """Some of the names that are served, those that are spelled like ``name`` first."""
        alike = get_close_matches(name[:200], self.names, n=_MOST_TOLD)
        some = list(dict.fromkeys([*alike, *self.names]))
        told = ", ".join(f"'{one}'" for one in some[:_MOST_TOLD])
        return told if len(some) <= _MOST_TOLD else f"{told} or another of the {len(some)} in GET /v1/models"

    def knows(self, name: str) -> bool:
        """Whether ``name`` is that of a model here, be it refused."""
        return name in self.refused or any(entry.find(name) is not None for entry in self.entries)

    def listings(self) -> Iterator[Listing]:
        """All models that are served."""
        for entry in self.entries:
            yield from entry.listings

    def show(self, name: str) -> Listing:
        """One of them. Raises ``ModelNotFoundError``, or why it was refused."""
        return self._find(name)[1]

    def states(self) -> list[ModelState]:
        """Where each model is in its life, and who uses it."""
        return [self._seen(state) for state in self._supervisor.states()]

    def residents(self) -> list[tuple[Entry, ModelState]]:
        """The same, with what is known of each."""
        return list(zip(self.entries, self.states(), strict=True))

    def resident(self, name: str) -> tuple[Entry, ModelState]:
        """The same of one. Raises ``ModelNotFoundError``, or why it was refused."""
        entry, _ = self._find(name)
        return entry, self._seen(self._supervisor.state(entry.name))

    def _seen(self, state: ModelState) -> ModelState:
        """``state``, unless the model is elsewhere and could not be reached the last time."""
        resident = self._supervisor.resident(state.name)
        lost = resident.unreachable() if resident is not None and state.state == "ready" else ""
        return replace(state, state="unreachable", failure=lost) if lost else state

    def loaded(self, name: str) -> LoadedModel | None:
        """What holds the model called ``name``, as long as it is there."""
        return self._supervisor.resident(self._find(name)[0].name)

    async def stop(self, name: str) -> ModelState:
        """Stop a model, or its load, whoever uses it or waits for it; where it was. The next request loads it again.

        Raises ``ModelNotFoundError``, or why it was refused.
        """
        entry, _ = self._find(name)
        before = self._seen(self._supervisor.state(entry.name))
        self._stopped.setdefault(entry.name, asyncio.Event())
        await self._supervisor.stop(entry.name)
        return before

    def _metrics(self) -> Iterator[tuple[dict[str, str], Metrics]]:
        for entry in self.entries:
            yield entry.labels, entry.metrics

    def check_ready(self) -> None:
        """Raises ``ShuttingDownError``, or ``EngineUnavailableError`` unless all pinned models are there, but for those
        that somebody has stopped.
        """
        if self.stopping:
            raise ShuttingDownError
        for entry in self.entries:
            lasting = entry.stay.pinned and entry.stay.preload
            resident = self._supervisor.resident(entry.name)
            if lasting and entry.name not in self._stopped and (resident is None or not resident.alive):
                raise EngineUnavailableError(
                    "The engine has died.", hint="It is being started again; see the server's log."
                )

    def end(self, error: UnmaskError) -> None:
        """End all running requests with ``error``."""
        for entry in self.entries:
            if (resident := self._supervisor.resident(entry.name)) is not None:
                resident.end(error)

    async def close(self) -> None:
        """End all engines."""
        for task in self._keeping:
            task.cancel()
        await self._supervisor.close()
        for entry in self.entries:
            entry.forget()  # now that none can be loaded any more, and begin to be asked

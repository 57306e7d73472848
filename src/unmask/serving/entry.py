"""A model that a server may load: what is known of it before, and how it is loaded."""

from __future__ import annotations

import abc
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unmask.events import EngineStats
from unmask.gateway.config.wanted import NOTHING_SAID
from unmask.gateway.supervisor import Progress
from unmask.metrics import Metrics
from unmask.params import GenerationParams
from unmask.serving.listing import Listing
from unmask.serving.observers.canary import canary_of
from unmask.serving.resident import LoadedModel
from unmask.serving.weights import state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """How long a model stays loaded: ``idle_seconds`` without users, None for ever; if ``pinned``, for ever even where
    others need its room. ``preload``: it is loaded when the server starts, which ends if that fails and the model is
    ``required``.
    """

    idle_seconds: float | None = None
    pinned: bool = False
    preload: bool = False
    required: bool = False


class Entry(abc.ABC):
    """The model called ``listings[0].name``; further ``listings`` are what adapters make of it.

    ``size_bytes``: what it takes when it is loaded. ``defaults`` are for requests that say nothing. ``aliases``: other
    names of it. ``canary``: it is asked a few things when it was loaded. ``metrics`` outlive its loads. ``log``: where
    the child that serves it writes, if one does. ``files``: what it is read from, directories or files; none if it is
    elsewhere. ``weights`` tells what was loaded the last time from what is loaded once the files have changed.
    """

    log: Path | None = None
    arrival: str = "model loaded"  # what the log says of it
    weights: str = ""

    def __init__(
        self,
        listings: Sequence[Listing],
        *,
        size_bytes: int = 0,
        stay: Stay = Stay(),
        defaults: GenerationParams = NOTHING_SAID,
        aliases: Sequence[str] = (),
        canary: bool = False,
        files: Sequence[Path] = (),
    ) -> None:
        self._canary = canary
        self._files = files
        self._asking: asyncio.Task[None] | None = None
        self.listings = listings
        self.defaults = defaults
        self.aliases = aliases
        self.size_bytes = size_bytes
        self.stay = stay
        first = listings[0]
        ours = first.info is not None
        self.metrics = Metrics(first.name, first.family, first.paradigm, EngineStats, ours=ours)
        self.labels = {"model": first.name, "lane": first.lane, "paradigm": first.paradigm}

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.listings[0].name

    def find(self, name: str) -> Listing | None:
        """The listing that is called ``name``, an alias or not."""
        own, colon, adapter = name.rpartition(":")
        plain = name if name not in self.aliases else self.name
        if own in self.aliases and colon:
            plain = f"{self.name}:{adapter}"
        return next((listing for listing in self.listings if listing.name == plain), None)

    async def load(self, progress: Progress) -> LoadedModel:
        """Load it. Where this raises or is cancelled it leaves nothing behind."""
        before = await self.weights_there()
        resident = await self._load(progress)
        there = await self.weights_there()
        self.weights = there if there is not None and there == before else f"loaded at {time.time_ns()}"
        known = {listing.name: listing for listing in self.listings}
        self.listings = [_with_known(listing, known.get(listing.name)) for listing in resident.listings()]
        if self._canary and self.listings[0].canary is None:
            self.forget()
            self._asking = asyncio.create_task(self._ask(resident))
        return resident

    async def weights_there(self) -> str | None:
        """What ``weights`` would be if it were loaded now; None if that cannot be told before."""
        return await asyncio.to_thread(state_of, self._files)

    async def _ask(self, resident: LoadedModel) -> None:
        """Find out once what the model says to a few prompts, beside the requests that it was loaded for."""
        verdict = await canary_of(resident.model(self.name), there=lambda: resident.alive)
        self.listings = [replace(listing, canary=verdict) for listing in self.listings]

    def forget(self) -> None:
        """Nothing more is asked of the model."""
        if self._asking is not None:
            self._asking.cancel()

    @abc.abstractmethod
    async def _load(self, progress: Progress) -> LoadedModel:
        """The same. Raises the ``UnmaskError`` that loading met."""


def _with_known(listing: Listing, known: Listing | None) -> Listing:
    """``listing``, as a loaded model tells of itself, with what was ``known`` before and it does not tell."""
    return listing if known is None else replace(listing, canary=known.canary, size=listing.size or known.size)

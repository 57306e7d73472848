"""A model that is in memory: what holds it, whatever engine it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from unmask.errors import UnmaskError
from unmask.gateway.config.wanted import NOTHING_SAID
from unmask.gateway.supervisor import Resident
from unmask.params import GenerationParams
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.listing import Listing
from unmask.serving.model import Model
from unmask.serving.native_model import NativeModel


class LoadedModel(Resident, Protocol):
    """A resident that answers requests."""

    @property
    def pid(self) -> int | None:
        """The process of its own that it has, if it is no engine of ours."""

    @property
    def lost_lines(self) -> int:
        """Lines of that process that did not get into its log."""

    def model(self, name: str) -> Model:
        """The model under one of its names."""

    def listings(self) -> Iterator[Listing]:
        """What catalogues tell of it now."""

    def unreachable(self) -> str:
        """Why it cannot be reached where it is, as far as is known; "" if it can."""

    def look(self) -> None:
        """Find out anew, beside everything else, whether it can be reached, if what is known of it is old."""

    def end(self, error: UnmaskError) -> None:
        """End all its requests with ``error``."""


class SupervisedEngine(Protocol):
    """An engine client whose engine may die by itself."""

    @property
    def alive(self) -> bool:
        """Whether it takes requests."""

    def end(self, error: UnmaskError) -> None:
        """End all requests with ``error``."""

    async def wait_closed(self) -> str:
        """Wait until it takes none; why."""

    async def close(self) -> None:
        """Stop it."""


class NativeResident:
    """A model on our own engine."""

    def __init__(
        self, engine: SupervisedEngine, loaded: DiffusionModel, defaults: GenerationParams = NOTHING_SAID
    ) -> None:
        self._defaults = defaults
        self._engine = engine
        self._loaded = loaded
        self._closing = False

    @property
    def alive(self) -> bool:
        """Whether the engine takes requests."""
        return not self._closing and self._engine.alive

    @property
    def pid(self) -> None:
        """The engine's process is the server's own affair."""

    @property
    def lost_lines(self) -> int:
        """None: it has no log of its own."""
        return 0

    def model(self, name: str) -> Model:
        """The variant called ``name``."""
        return NativeModel(self._loaded, name, self._loaded.variants[name], self._defaults)

    def listings(self) -> Iterator[Listing]:
        """The model, and what adapters make of it."""
        return self._loaded.listings()

    def unreachable(self) -> str:
        """Nothing: its process is our own."""
        return ""

    def look(self) -> None:
        """There is nothing to find out."""

    def end(self, error: UnmaskError) -> None:
        """End all requests with ``error``, and the building of what answers must look like."""
        self._loaded.constraints.close()
        self._engine.end(error)

    async def wait_closed(self) -> str:
        """Wait until the engine takes no requests any more; why."""
        return await self._engine.wait_closed()

    async def close(self) -> None:
        """End the engine process."""
        self._closing = True
        self._loaded.constraints.close()
        await self._engine.close()

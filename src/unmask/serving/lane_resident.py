"""Models on engines of other kinds: in a child process, or at an address."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

from unmask.errors import EngineUnavailableError, UnmaskError
from unmask.gateway.child import GRACE_SECONDS, Child
from unmask.gateway.upstream.upstream import Upstream
from unmask.serving.lane_model import LaneModel
from unmask.serving.listing import Listing
from unmask.serving.model import Model
from unmask.serving.pulse import pulse_lost

_OLD_SECONDS = 10.0  # after which what is known of somebody else's engine is looked at again
_LOOK_SECONDS = 5.0


class LaneResident:
    """A model that a lane serves. Without a ``child`` the engine is somebody else's, and is taken to be there."""

    def __init__(self, upstream: Upstream, model: LaneModel, listing: Listing, child: Child | None) -> None:
        self._upstream = upstream
        self._model = model
        self._listing = listing
        self._child = child
        self._closing = False
        self._looking: asyncio.Task[bool] | None = None

    @property
    def alive(self) -> bool:
        """Whether the child runs, and answers, and nobody has begun to close it."""
        if self._closing:
            return False
        return self._child is None or (self._child.status is None and not self._model.hung)

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return None if self._child is None else self._child.pid

    @property
    def lost_lines(self) -> int:
        """Lines of the child that the disk did not take."""
        return 0 if self._child is None else self._child.lost_lines

    def model(self, name: str) -> Model:
        """The model; it has one name."""
        return self._model

    def listings(self) -> Iterator[Listing]:
        """The one listing, with what the engine has told; it may be another one than was chosen at first."""
        endpoint, listing = self._upstream.endpoint, self._listing
        known = endpoint.context_length or listing.context_length
        paradigm = endpoint.paradigm if listing.paradigm == "unknown" else listing.paradigm
        yield replace(listing, context_length=known, lane=endpoint.lane, paradigm=paradigm)

    def unreachable(self) -> str:
        """Why somebody else's engine could not be reached the last time, "" if it could."""
        return "" if self._child is not None else self._upstream.contact.lost

    def look(self) -> None:
        """Ask somebody else's engine anew, beside everything else, if the last contact is long ago."""
        old = self._child is None and self._upstream.contact.age > _OLD_SECONDS
        if old and not self._closing and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._upstream.is_silent(_LOOK_SECONDS))

    def end(self, error: UnmaskError) -> None:
        """End all requests with ``error``."""
        self._model.end(error)

    async def wait_closed(self) -> str:
        """Wait until the child ends or hangs, of which its requests are told; why. Somebody else's never does."""
        if self._child is None:
            await asyncio.Event().wait()
            raise AssertionError("nobody sets it")
        ways: list[asyncio.Task[UnmaskError]] = [
            asyncio.create_task(self._child.explain_end()),
            asyncio.create_task(self._model.wait_hung()),
            asyncio.create_task(pulse_lost(self._model, self._upstream)),
        ]
        try:
            (first, *_), _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            error = first.result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        self._model.end(error)
        return str(error)

    async def close(self) -> None:
        """End the child, which is not asked first if it hangs; its requests end with an error."""
        self._closing = True
        if self._looking is not None:
            self._looking.cancel()
        self._model.end(
            EngineUnavailableError("The engine was stopped.", hint="Ask again: a server loads the model anew.")
        )
        try:
            await self._upstream.close()
        finally:
            if self._child is not None:
                await self._child.close(0 if self._model.hung else GRACE_SECONDS)

"""The models of the server as one HTTP request sees them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import Depends, Request

from unmask.answers.chat import Chat, Continuation
from unmask.serving.connection import unless_disconnected
from unmask.serving.house import House
from unmask.serving.model import Answering, Model
from unmask.serving.model_request import seconds
from unmask.serving.observers.observers import Observers
from unmask.serving.trace import current_trace
from unmask.shown import cut, printable


class RequestModels:
    """What ``find`` gives stays loaded until the response has been sent to its end."""

    def __init__(self, request: Request, held: AsyncExitStack) -> None:
        self.house: House = request.app.state.house
        self._observers: Observers = request.app.state.observers
        self._receive = request.receive
        self._held = held
        self._wanted: str | None = None

    async def find(self, name: str | None, keep_alive: float | str | None = None) -> Model:
        """The model called ``name``, waited for if it is not loaded; None means the only one. It stays for as long as
        ``keep_alive`` says, if it says anything.

        To be asked once the request's body is known to be right: a model is not loaded for one that is refused. Raises
        what ``House.meant`` and ``House.hold`` raise, or ``ClientDisconnect``.
        """
        trace, since = current_trace(), time.time()
        trace.asked(name)
        name = self.house.meant(name)
        listing = self.house.show(name)
        _, before = self.house.resident(listing.name)
        trace.wants(listing, before)
        self._wanted = listing.name
        try:
            held = self._held.enter_async_context(self.house.hold(name))
            model = await unless_disconnected(self._receive, held)
        finally:
            self._wanted = None
            trace.waited(since, before, self.house.resident(listing.name)[1])
        if keep_alive is not None:
            self.house.keep(listing.name, seconds(keep_alive))
        return self._observers.around(model, self.house.resident(name)[0].weights)

    async def find_for(
        self, asked: Chat | Continuation, tenant: str, name: str | None, keep_alive: float | str | None = None
    ) -> Answering:
        """What answers ``asked`` of ``tenant``: what ``find`` gives, or what stands for a model that is not loaded and
        whose answers were kept.
        """
        current_trace().asked(name)
        house, meant = self.house, self.house.meant(name)
        if not house.stopping and house.loaded(meant) is None:
            listing = house.show(meant)
            entry, state = house.resident(meant)
            kept = await self._observers.kept(entry, listing.name, asked, tenant)
            if kept is not None:
                current_trace().wants(listing, state)
                return kept
        return await self.find(name, keep_alive)

    def waiting_for(self) -> str:
        """What ``find`` waits for, in one line of words; "" if it does not."""
        if self._wanted is None:
            return ""
        name, share = printable(cut(self._wanted)), self.house.loading(self._wanted)
        if share is None:
            return f"waiting for {name}"
        return f"loading {name} {share * 100:.0f} %" if share else f"loading {name}"


async def _of_request(request: Request) -> AsyncIterator[RequestModels]:
    async with AsyncExitStack() as held:
        yield RequestModels(request, held)


def _of_app(request: Request) -> House:
    house: House = request.app.state.house
    return house


Models = Annotated[RequestModels, Depends(_of_request)]
Served = Annotated[House, Depends(_of_app)]

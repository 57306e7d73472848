"""The models of the server as one HTTP request sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated

from fastapi import Depends, Request

from unmask.serving.connection import unless_disconnected
from unmask.serving.house import House
from unmask.serving.model import Model
from unmask.serving.observers.observers import Observers


class RequestModels:
    """What ``find`` gives stays loaded until the response has been sent to its end."""

    def __init__(self, request: Request, held: AsyncExitStack) -> None:
        self.house: House = request.app.state.house
        self._observers: Observers = request.app.state.observers
        self._receive = request.receive
        self._held = held

    async def find(self, name: str | None) -> Model:
        """The model called ``name``, waited for if it is not loaded; None means the first one.

        To be asked once the request's body is known to be right: a model is not loaded for one that is refused. Raises
        ``ModelNotFoundError``, what loading raises, or ``ClientDisconnect``.
        """
        held = self._held.enter_async_context(self.house.hold(name))
        return self._observers.around(await unless_disconnected(self._receive, held))


async def _of_request(request: Request) -> AsyncIterator[RequestModels]:
    async with AsyncExitStack() as held:
        yield RequestModels(request, held)


def _of_app(request: Request) -> House:
    house: House = request.app.state.house
    return house


Models = Annotated[RequestModels, Depends(_of_request)]
Served = Annotated[House, Depends(_of_app)]

"""Work that lasts as long as somebody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``. A client that leaves first cancels ``work``: raises ``ClientDisconnect``.

    The request's body must have been read: ``receive`` has nothing but the disconnect left to tell.
    """
    working = asyncio.ensure_future(work)
    tasks: list[asyncio.Future[Any]] = [working]
    try:
        await asyncio.sleep(0)  # most work need not wait for anything, and is done before the client could leave
        if not working.done():
            tasks.append(asyncio.ensure_future(_disconnect(receive)))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientDisconnect
        return working.result()
    finally:
        for task in tasks:
            task.cancel()
        if not all(task.done() for task in tasks):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

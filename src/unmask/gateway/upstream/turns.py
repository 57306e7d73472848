"""Whose turn it is: a lane is sent as many requests at once as it works on, and the others wait here, in their order.

What waits here and is left is never sent. llama.cpp would take it as a connection, leave that alone until it has a
thread for it, and then begin to work for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from unmask.gateway.upstream.watch import Watch


class Turns:
    """``at_once`` requests have their turn; None is any number. ``waiting``: how many have not."""

    def __init__(self, at_once: int | None) -> None:
        self.waiting = 0
        self._free = None if at_once is None else asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def one(self, watch: Watch) -> AsyncIterator[None]:
        """One turn, waited for; ``watch`` is told when it has come."""
        if self._free is None:
            watch.sent()
            yield
            return
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        try:
            watch.sent()
            yield
        finally:
            self._free.release()

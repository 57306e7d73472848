"""A sign of life in a stream that is silent for long, so that nothing on the way takes it for dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager


class KeepAlive:
    """Calls ``send`` whenever ``seconds`` have passed since something was last ``said``."""

    def __init__(self, seconds: float, send: Callable[[], Awaitable[None]]) -> None:
        self._seconds = seconds
        self._send = send
        self._last = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """From now on, which counts as something said, to the end."""
        self.said()
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def said(self) -> None:
        """Something has been sent just now."""
        self._last = asyncio.get_running_loop().time()

    async def _run(self) -> None:
        """One timer for many events: most of them only move the time at which it looks again."""
        loop = asyncio.get_running_loop()
        while True:
            left = self._last + self._seconds - loop.time()
            if left > 0:
                await asyncio.sleep(left)
            else:
                await self._send()
                self.said()

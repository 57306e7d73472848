"""How far a load has come, told while it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from unmask.gateway.supervisor import Progress

_SECONDS = 0.1


@asynccontextmanager
async def telling(share: Callable[[], float | None], progress: Progress) -> AsyncIterator[None]:
    """Tell ``progress`` the ``share`` that is loaded, as long as the context is open and something is being loaded."""

    async def tell() -> None:
        while True:
            if (now := share()) is not None:
                progress(now)
            await asyncio.sleep(_SECONDS)

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

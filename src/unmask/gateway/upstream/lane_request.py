"""All answers to one HTTP request, from a lane: several of its own requests that run together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Self

import aiohttp

from unmask.answers.answer import AnswerDelta
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.gateway.upstream.fetch import Fetch
from unmask.gateway.upstream.request import Asked
from unmask.gateway.upstream.spellings import Spellings
from unmask.gateway.upstream.turns import Turns

# How long it is worth to wait for a refusal. What runs here has little to refuse, and goes on without a sign until the
# prompt is computed; what is elsewhere may be down, or not let us in.
_HERE_SECONDS, _ELSEWHERE_SECONDS = 0.01, 10.0
_MOST_UNREAD = 16  # deltas: a slow reader slows the lane down, it does not fill memory


class LaneRequest:
    """Runs each of ``asked`` and gives their deltas as they come: ``with request: ... await request.next()``.

    ``cells`` spell the tokens in log-probabilities and frames. Leaving the context closes all connections at once.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        asked: Sequence[Asked],
        patience: Patience,
        turns: Turns,
        cells: Spellings,
    ) -> None:
        self._session = session
        self._heard = asyncio.Event()
        self._refused = False
        self._worth_seconds = _ELSEWHERE_SECONDS if endpoint.kind == "remote" else _HERE_SECONDS
        self._fetches = [Fetch(endpoint, one, patience, turns, cells, taken=self._heard.set) for one in asked]
        self._deltas: asyncio.Queue[tuple[int, AnswerDelta | Exception]] = asyncio.Queue(_MOST_UNREAD)
        self._tasks: list[asyncio.Task[None]] = []
        self.cells = cells

    def __len__(self) -> int:
        return len(self._fetches)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def prompt_tokens(self, number: int) -> int:
        """Tokens of a request's prompt; 0 as long as the lane has not answered."""
        return self._fetches[number].prompt_tokens

    def start(self) -> None:
        """Send all requests."""
        self._tasks = [asyncio.create_task(self._run(number, fetch)) for number, fetch in enumerate(self._fetches)]

    async def refused(self) -> bool:
        """Whether the lane refuses what it was sent, waited for until it says so or takes it, or for a while."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._worth_seconds):
                await self._heard.wait()
        return self._refused

    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta, waited for, and its request's number. Raises the error that ended a request.

        May be cancelled (by a timeout) and called again; not once all requests have their answer.
        """
        number, delta = await self._deltas.get()
        if isinstance(delta, Exception):
            raise delta
        return number, delta

    def close(self) -> None:
        """Close every connection that is still open: the lane drops what it has not finished."""
        for task in self._tasks:
            task.cancel()

    def fail(self, error: Exception) -> None:
        """Close every connection; whoever asks for what comes next gets ``error``."""
        self.close()
        while not self._deltas.empty():
            self._deltas.get_nowait()
        self._ended()
        self._deltas.put_nowait((0, error))

    async def _run(self, number: int, fetch: Fetch) -> None:
        try:
            async with aclosing(fetch.deltas(self._session)) as deltas:
                async for delta in deltas:
                    await self._deltas.put((number, delta))
        except Exception as error:  # for whoever asks next, our own bugs included
            self._ended()
            await self._deltas.put((number, error))

    def _ended(self) -> None:
        """An error is about to be told, which is a refusal if the lane has taken nothing yet."""
        self._refused |= not self._heard.is_set()
        self._heard.set()

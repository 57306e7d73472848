"""One request to a lane: its connection, from the first byte of the body to the last of the answer, or to its loss."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

import aiohttp

from unmask.answers.answer import Answer, AnswerDelta, LaneCompletion
from unmask.errors import ContextLengthError, EngineCrashedError, EngineUnavailableError, UnmaskError, UpstreamError
from unmask.events import FinishReason
from unmask.gateway.upstream.chunk import Chunk, decode_chunk
from unmask.gateway.upstream.contact import unreached
from unmask.gateway.upstream.endpoint import Endpoint, Patience
from unmask.gateway.upstream.failures import failure_of, told_by_chunk, told_by_response
from unmask.gateway.upstream.reader import AnswerReader, News
from unmask.gateway.upstream.request import Asked
from unmask.gateway.upstream.spellings import Spellings
from unmask.gateway.upstream.sse import EventReader, EventTooLargeError
from unmask.gateway.upstream.turns import Turns
from unmask.gateway.upstream.watch import Watch
from unmask.shown import cut, printable

_MOST_ERROR = 64 * 1024  # bytes of a response that is no answer
_MOST_WHOLE = 32 * 1024 * 1024  # of an answer in one piece
_DONE = b"[DONE]"


class Fetch:
    """Sends ``asked`` to ``endpoint`` and gives its answer as it comes. ``taken`` is called once it is accepted."""

    def __init__(
        self,
        endpoint: Endpoint,
        asked: Asked,
        patience: Patience,
        turns: Turns,
        spellings: Spellings,
        *,
        taken: Callable[[], None],
    ) -> None:
        self._taken = taken
        self._turns = turns
        self._endpoint = endpoint
        self._asked = asked
        self._applied = asked.applied
        self._watch = Watch(endpoint, patience, asked.timeout)
        self._reader = AnswerReader(asked, endpoint, spellings)
        self._snapshots = 0

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt; 0 as long as the lane has not answered."""
        return self._reader.prompt_tokens

    async def deltas(self, session: aiohttp.ClientSession) -> AsyncGenerator[AnswerDelta]:
        """All deltas, the answer with the last. Raises an error of the catalogue. To be closed when it is left: that
        closes the connection, which tells the lane to stop.
        """
        cut_by: FinishReason | None = None
        try:
            async with self._watch.running(), self._turns.one(self._watch), aclosing(self._told(session)) as told:
                async for news in told:
                    with self._watch.paused():
                        yield self._delta(news)
        except TimeoutError:
            cut_by = self._why_cut()
        news, answer = self._reader.end(cut_by)
        yield self._delta(news, answer)

    async def _told(self, session: aiohttp.ClientSession) -> AsyncGenerator[News]:
        """What the lane tells, from the request to the end of the answer. To be closed when it is left."""
        response = await self._fitting(session)
        try:
            async with aclosing(self._chunks(response)) as chunks:
                async for chunk in chunks:
                    news = self._reader.feed(chunk)
                    if news.progress:
                        self._watch.progress(shown=bool(news.parts), over=self._reader.finished)
                    if news:
                        yield news
                    if self._reader.stopped:
                        break
        finally:
            response.close()

    async def _fitting(self, session: aiohttp.ClientSession) -> aiohttp.ClientResponse:
        """The response, of an answer that may take all the room there is if it may not be as long as was asked."""
        try:
            return await self._open(session, self._asked.body)
        except ContextLengthError:
            if self._asked.unlimited is None:
                raise
            self._applied = {name: value for name, value in self._applied.items() if name != "max_tokens"}
            return await self._open(session, self._asked.unlimited)

    async def _open(self, session: aiohttp.ClientSession, body: bytes) -> aiohttp.ClientResponse:
        """The response, once its head is there. Raises what it says if it is no answer."""
        url = self._endpoint.base_url.rstrip("/") + self._asked.path
        try:
            response = await session.post(url, data=body, headers=self._endpoint.headers, allow_redirects=False)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise EngineUnavailableError(
                f"{self._endpoint.told} cannot be reached: {unreached(error)}.",
                hint=f"It may be starting, or have ended. {self._endpoint.look}",
            ) from None
        except (aiohttp.ClientResponseError, aiohttp.InvalidURL) as error:
            raise UpstreamError(
                f"{self._endpoint.told} speaks no HTTP: {_said(error)}.", hint=self._endpoint.look
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise self._broke_off(error) from None
        self._watch.accepted()
        try:
            if response.status != 200:
                said = await self._body(response, _MOST_ERROR, whole=False)
                raise failure_of(told_by_response(response.status, response.headers, said), self._endpoint)
        except BaseException:
            response.close()
            raise
        self._taken()
        return response

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[Chunk]:
        """The chunks of the answer, up to its end; one for all of it if the lane does not stream."""
        if response.content_type == "application/json":
            yield self._chunk(await self._body(response, _MOST_WHOLE, whole=True))
            return
        if response.content_type == "text/html":
            page = await self._body(response, _MOST_ERROR, whole=False)
            raise failure_of(told_by_response(0, {}, page), self._endpoint)
        events = EventReader()
        while piece := await self._read(response):
            for data in self._events(events, piece):
                if data.strip() == _DONE:
                    return
                yield self._chunk(data)
        for data in events.finish():
            if data.strip() == _DONE:
                return
            yield self._chunk(data)
        if not self._reader.finished and self._reader.begun:
            raise self._broke_off(None)

    def _events(self, events: EventReader, piece: bytes) -> list[bytes]:
        try:
            return events.feed(piece)
        except EventTooLargeError:
            raise UpstreamError(
                f"{self._endpoint.told} sent an event without an end.", hint=self._endpoint.look
            ) from None

    def _chunk(self, data: bytes) -> Chunk:
        try:
            chunk = decode_chunk(data)
        except ValueError:
            start = printable(cut(data[:400].decode(errors="replace")))
            raise UpstreamError(
                f"{self._endpoint.told} sent what is no chunk of an answer: {start}",
                hint=f"{self._endpoint.look} Is it a server of OpenAI's API?",
            ) from None
        told = told_by_chunk(chunk)
        if told is not None:
            raise failure_of(told, self._endpoint)
        return chunk

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """What has come, or nothing at the end. Of an answer that is over, only its usage can be lost any more."""
        try:
            return await response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            if self._reader.finished:
                return b""
            raise self._broke_off(error) from None

    async def _body(self, response: aiohttp.ClientResponse, most: int, *, whole: bool) -> bytes:
        """Up to ``most`` bytes of a body. One that must be ``whole`` raises ``UpstreamError`` if it has more."""
        body = bytearray()
        while len(body) <= most and (piece := await self._read(response)):
            body += piece
        if whole and len(body) > most:
            raise UpstreamError(f"{self._endpoint.told} sent more than {most} bytes at once.", hint=self._endpoint.look)
        return bytes(body[:most])

    def _why_cut(self) -> FinishReason | None:
        """What ends an answer whose time is over; None if it was complete. Raises if there is none to tell of."""
        if self._reader.finished:
            return None
        if not self._watch.timed_out:
            raise self._watch.stalled() from None
        if not self._reader.begun:
            raise self._watch.overdue() from None
        return "timeout"

    def _broke_off(self, error: Exception | None) -> UnmaskError:
        when = "within its answer" if self._reader.begun else "before it answered"
        said = f": {_said(error)}" if error is not None and str(error) else ""
        return EngineCrashedError(
            f"{self._endpoint.told} broke off {when}{said}.",
            hint=f"Its process may have died. {self._endpoint.look} Try again.",
        )

    def _delta(self, news: News, answer: Answer | None = None) -> AnswerDelta:
        stats = self._watch.stats()
        stats.committed = self._reader.committed
        if news.frame is not None:
            self._snapshots += 1
            stats.forwards, stats.blocks = self._snapshots, 1  # a frame says how far it has come
        if answer is not None and isinstance(answer.completion, LaneCompletion):
            stats.cached = answer.completion.stats.cached
            answer = replace(answer, completion=replace(answer.completion, stats=stats, applied=self._applied))
        return AnswerDelta(news.parts, stats, news.frame, news.logprobs, answer, news.runs)


def _said(error: Exception) -> str:
    return printable(cut(error))

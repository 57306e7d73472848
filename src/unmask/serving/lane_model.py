"""A model on an engine of another kind, as the dialects see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from unmask.answers.answer import AnswerDelta
from unmask.answers.chat import Chat, Continuation
from unmask.answers.tokenized import Tokenized
from unmask.errors import EngineCrashedError, EngineStalledError, NotServedError, UnmaskError
from unmask.events import EngineStats
from unmask.gateway.config.defaults import filled
from unmask.gateway.config.wanted import NOTHING_SAID
from unmask.gateway.upstream.lane_request import LaneRequest
from unmask.gateway.upstream.upstream import Upstream
from unmask.metrics import Metrics
from unmask.params import GenerationParams
from unmask.serving.admission import Admission, CountedAdmission
from unmask.serving.ledger import current_ledger
from unmask.serving.length import check_count, no_room
from unmask.serving.places import Places
from unmask.terms import Timeouts

Asked = TypeVar("Asked", Chat, Continuation)
T = TypeVar("T")

_WORDS_SECONDS = 3.0  # for the end of an engine that broke an answer off


class LaneModel:
    """The model that ``upstream`` serves, under its own ``name``.

    ``capacity`` bounds the requests that are there at once; ``timeouts`` how long they take. ``last_words``
    waits for the engine's end and tells why; None for an engine of somebody else's. ``defaults`` are for requests that
    say nothing.
    """

    def __init__(
        self,
        name: str,
        upstream: Upstream,
        metrics: Metrics,
        capacity: int,
        timeouts: Timeouts,
        last_words: Callable[[], Awaitable[UnmaskError]] | None,
        *,
        defaults: GenerationParams = NOTHING_SAID,
    ) -> None:
        self.name = name
        self._last_words = last_words
        self._upstream = upstream
        self._metrics = metrics
        self._timeouts = timeouts
        self._defaults = defaults
        self._running: set[LaneRequest] = set()
        self._progress = time.monotonic()
        self._hung: asyncio.Future[EngineStalledError] = asyncio.get_running_loop().create_future()
        self.places = Places(capacity, metrics)

    @property
    def has_template(self) -> bool:
        """It has: an engine that has none for its model makes one up."""
        return True

    async def admit_chat(self, chat: Chat, tenant: str) -> Admission:
        """``chat``, checked. Raises what ``Upstream.chat`` raises, and ``InvalidValueError`` for too many copies."""
        self.places.check(chat.copies, "n")
        chat = await self._within(replace(chat, params=self._bound(chat.params)))
        return self._admit(self._upstream.chat(chat))

    async def _within(self, asked: Asked) -> Asked:
        """``asked`` within the context that the client wants, where the engine's is larger and it counts prompts.

        Raises ``ContextLengthError`` if that leaves no room, and what ``LaneTokenizer`` raises.
        """
        wanted = None if asked.length is None else asked.length.context
        whole = self._upstream.endpoint.context_length
        if wanted is None or (whole is not None and wanted >= whole):
            return asked
        plain = replace(asked, length=None)
        prompt_tokens = await self._longest(plain)
        if prompt_tokens is None:
            return asked
        room = wanted - prompt_tokens
        if room < 1:
            raise no_room(prompt_tokens, wanted)
        return replace(plain, params=replace(asked.params, max_tokens=min(asked.params.max_tokens or room, room)))

    async def _longest(self, asked: Chat | Continuation) -> int | None:
        """The tokens of the longest prompt, if the lane tells."""
        tokenizer = self._upstream.tokenizer()
        if isinstance(asked, Chat):
            found = [await tokenizer.of_chat(asked)]
        else:
            found = [await tokenizer.of_text(text) for text in asked.texts] + [*map(Tokenized, asked.ids)]
        told = [len(one.ids) for one in found if one is not None]
        return max(told) if len(told) == len(found) else None

    async def admit_texts(self, asked: Continuation, tenant: str) -> Admission:
        """``asked``, checked, in the same way."""
        self.places.check(asked.prompts * asked.copies, "prompt" if asked.prompts > 1 else "n")
        asked = await self._within(replace(asked, params=self._bound(asked.params)))
        return self._admit(self._upstream.complete(asked))

    async def tokenize(self, asked: Chat | str, *, special: bool = True, pieces: bool = False) -> Tokenized:
        """The tokens of ``asked``. Raises ``NotServedError`` if the engine does not tell."""
        tokenizer = self._upstream.tokenizer()
        if isinstance(asked, str):
            return self._told(await tokenizer.of_text(asked, special=special, pieces=pieces), "Tokenizing")
        return self._told(await tokenizer.of_chat(asked, pieces=pieces), "Tokenizing")

    async def detokenize(self, ids: list[int]) -> str:
        """The text of ``ids``. Raises ``NotServedError`` if the engine does not tell."""
        room = self._upstream.endpoint.context_length
        if room is not None:
            check_count(ids, room, self.name, "tokens")
        return self._told(await self._upstream.tokenizer().text(ids), "Detokenizing")

    async def tokenizer_info(self) -> dict[str, Any]:
        """What the engine tells of its tokenizer. Raises ``NotServedError`` if that is nothing."""
        return self._told(await self._upstream.tokenizer().info(), "Its tokenizer's configuration")

    def _told(self, found: T | None, what: str) -> T:
        if found is None:
            raise NotServedError(
                f"{what} is not to be had for '{self.name}': lane '{self._upstream.endpoint.lane}' serves it.",
                hint="Ask for a model on llama.cpp, on vLLM, or on Unmask's own engine.",
            )
        return found

    def stats(self) -> EngineStats:
        """What is known of the engine's work: how many requests it has, and how many wait for it."""
        waiting = self._upstream.waiting
        return EngineStats(running=sum(len(request) for request in self._running) - waiting, waiting=waiting)

    def end(self, error: UnmaskError) -> None:
        """End all running requests with ``error``."""
        for request in self._running:
            request.fail(error)

    @contextmanager
    def run(self, request: LaneRequest) -> Iterator[None]:
        """Let the lane answer ``request``; on leaving it drops what it has not finished."""
        self._running.add(request)
        try:
            with request:
                yield
        finally:
            self._running.remove(request)

    async def why(self, broken: EngineCrashedError) -> UnmaskError:
        """What is known of an answer that broke off: the engine's last words, if it has ended."""
        if self._last_words is None:
            return broken
        try:
            async with asyncio.timeout(_WORDS_SECONDS):
                return await self._last_words()
        except TimeoutError:
            return broken

    @property
    def hung(self) -> bool:
        """Whether the engine answers nobody any more."""
        return self._hung.done()

    async def wait_hung(self) -> EngineStalledError:
        """Wait until the engine answers nobody any more; what was made of it. May be cancelled."""
        return await asyncio.shield(self._hung)

    def progressed(self) -> None:
        """Some request got further."""
        self._progress = time.monotonic()

    def stalled(self, error: EngineStalledError) -> None:
        """A request got nowhere for as long as it may: the engine hangs if no other one got further meanwhile."""
        if time.monotonic() - self._progress >= self._upstream.patience.stall:
            self.hang(error)

    def hang(self, error: EngineStalledError) -> None:
        """The engine hangs: ``error`` is for those whom it has left waiting."""
        if not self.hung:
            self._hung.set_result(error)

    @property
    def unmoved(self) -> float:
        """For how many seconds none of the requests that are there got further; 0 without any."""
        return time.monotonic() - self._progress if self._running else 0.0

    def _admit(self, request: LaneRequest) -> Admission:
        return LaneAdmission(self, self._metrics, request)

    def _bound(self, params: GenerationParams) -> GenerationParams:
        """``params`` within what the key allows, and the server's own limit of time."""
        params = current_ledger().bound(filled(params, self._defaults))
        limit = round(self._timeouts.request * 1000)
        if not limit or (params.timeout_ms is not None and params.timeout_ms <= limit):
            return params
        return replace(params, timeout_ms=limit)


class LaneAdmission(CountedAdmission):
    """Requests of one HTTP request that a lane answers."""

    def __init__(self, model: LaneModel, metrics: Metrics, request: LaneRequest) -> None:
        super().__init__(model.places, metrics, [0] * len(request), request.cells)
        self._model = model
        self._request = request
        self._broken: EngineCrashedError | None = None

    def _prompt(self, number: int) -> int:
        return self._request.prompt_tokens(number)

    def _run(self) -> AbstractContextManager[object]:
        return self._model.run(self._request)

    async def refused(self) -> bool:
        """Whether the lane does not take a request, if it says so at once."""
        return await self._request.refused()

    async def _next(self) -> tuple[int, AnswerDelta]:
        if self._broken is None:
            try:
                number, delta = await self._request.next()
            except EngineCrashedError as broken:
                self._broken = broken  # is told once; who asks for the reason may be cancelled, and ask again
            except EngineStalledError as stalled:
                self._model.stalled(stalled)
                raise
            else:
                self._model.progressed()
                return number, delta
        raise await self._model.why(self._broken)

"""How everything outside the engine talks to it: submit prompts, read their canvas events from a mailbox.

``EngineClient`` routes reports to waiting requests; its two twins differ only in where the engine lives:
``process.py`` has it in a process of its own (serving), ``thread.py`` in a thread of this one (Python API).
"""

from __future__ import annotations

import abc
import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from unmask.engine import wire
from unmask.errors import UnmaskError
from unmask.events import CanvasEvent, EngineStats, StepReport
from unmask.params import DecodingParams, ModelInfo
from unmask.terms import Terms

Progress = Callable[[float], None]
StepListener = Callable[[StepReport], None]


class Mailbox:
    """Events of requests that run together, on their way to one reader, each with its request's number.

    Frames are droppable: only a request's newest unread one stays.
    """

    def __init__(self, request_ids: list[str], cancel: Callable[[str], None]) -> None:
        self._ids = request_ids
        self._numbers = {request_id: number for number, request_id in enumerate(request_ids)}
        self._cancel = cancel
        self._events: deque[CanvasEvent] = deque()
        self._arrived = asyncio.Event()

    def put(self, event: CanvasEvent) -> None:
        """Add an event."""
        if event.frame is not None:
            for older in reversed(self._events):
                if older.request_id == event.request_id:
                    older.frame = None
                    break
        self._events.append(event)
        self._arrived.set()

    async def get(self) -> tuple[int, CanvasEvent]:
        """The oldest event, waited for, and its request's number. Raises the error with which a request ended.

        May be cancelled and called again: no event is lost.
        """
        while not self._events:
            self._arrived.clear()
            await self._arrived.wait()
        event = self._events.popleft()
        if event.error is not None:
            raise UnmaskError.from_code(*event.error)
        return self._numbers[event.request_id], event

    def drop(self, number: int) -> None:
        """Forget a request: no event of it comes any more, and the engine drops it if it still runs."""
        self._cancel(self._ids[number])
        self._events = deque(event for event in self._events if event.request_id != self._ids[number])


class EngineClient(abc.ABC):
    """One engine, seen from an asyncio program. All methods belong to the event loop that started it.

    ``models`` by adapter ("" for none) and ``stats`` are plain attributes, current as of the engine's last report.
    ``on_step`` is called with each report (metrics hang there).
    """

    models: dict[str, ModelInfo]

    def __init__(self) -> None:
        self.stats = EngineStats()
        self.on_step: StepListener = lambda report: None
        self._mailboxes: dict[str, Mailbox] = {}
        self._numbers = count()
        self._refusal: UnmaskError | None = None

    @contextmanager
    def submit(self, prompts: Sequence[tuple[list[int], DecodingParams, Terms]]) -> Iterator[Mailbox]:
        """Run ``prompts`` (ids, parameters and terms) together; the mailbox numbers their events in this order.

        Leaving the context cancels, within one step, those that have not ended. Raises ``EngineUnavailableError``
        if the engine is gone, and the error of ``end``.
        """
        if self._refusal is not None:
            raise self._refusal
        request_ids = [str(next(self._numbers)) for _ in prompts]
        mailbox = Mailbox(request_ids, self._cancel)
        try:
            for request_id, (prompt_ids, params, terms) in zip(request_ids, prompts, strict=True):
                self._mailboxes[request_id] = mailbox
                self._send(wire.Submit(request_id, prompt_ids, params, terms))
            yield mailbox
        finally:
            for request_id in request_ids:
                self._cancel(request_id)

    @property
    def model(self) -> ModelInfo:
        """The loaded model itself."""
        return self.models[""]

    @property
    @abc.abstractmethod
    def alive(self) -> bool:
        """Whether the engine takes requests."""

    def end(self, error: UnmaskError) -> None:
        """End all requests with ``error``, now; those that still come are refused with it."""
        self._refusal = error
        self._fail_all(error)

    @abc.abstractmethod
    async def close(self) -> None:
        """Stop the engine; running requests end with an error."""

    @abc.abstractmethod
    def _send(self, command: wire.Command) -> None:
        """Hand ``command`` to the engine without waiting."""

    def _cancel(self, request_id: str) -> None:
        """Drop a request if it still runs."""
        if self._mailboxes.pop(request_id, None) is not None:
            self._send(wire.Cancel(request_id))

    def _deliver(self, report: StepReport) -> None:
        self.stats = report.stats
        for event in report.events:
            self._put(event)
        self.on_step(report)

    def _put(self, event: CanvasEvent) -> None:
        mailbox = self._mailboxes.get(event.request_id)
        if mailbox is not None:  # else it was dropped just now
            mailbox.put(event)
            if event.last:
                del self._mailboxes[event.request_id]

    def _fail_all(self, error: UnmaskError) -> None:
        self.stats = EngineStats()
        for request_id in list(self._mailboxes):
            self._put(CanvasEvent.failure(request_id, error.code, str(error)))

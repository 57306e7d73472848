"""How everything outside the engine talks to it: submit a prompt, iterate over its canvas events.

``EngineClient`` routes reports to waiting requests; its two twins differ only in where the engine lives:
``process.py`` has it in a process of its own (serving), ``thread.py`` in a thread of this one (Python API).
"""

from __future__ import annotations

import abc
import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import count

from unmask.engine import wire
from unmask.errors import EngineUnavailableError, UnmaskError
from unmask.events import CanvasEvent, EngineStats, StepReport
from unmask.params import DecodingParams, ModelInfo

Progress = Callable[[float], None]
StepListener = Callable[[StepReport], None]


class Mailbox:
    """Events of one request on their way to its reader. Frames are droppable: only the newest unread one stays."""

    def __init__(self) -> None:
        self._events: deque[CanvasEvent] = deque()
        self._arrived = asyncio.Event()

    def put(self, event: CanvasEvent) -> None:
        """Add an event."""
        if self._events and event.frame is not None:
            self._events[-1].frame = None
        self._events.append(event)
        self._arrived.set()

    async def get(self) -> CanvasEvent:
        """The oldest event, waited for."""
        while not self._events:
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()


class EngineClient(abc.ABC):
    """One engine, seen from an asyncio program. All methods belong to the event loop that started it.

    ``model`` and ``stats`` are plain attributes, current as of the engine's last report. ``on_step`` is called
    with each report (metrics hang there).
    """

    model: ModelInfo

    def __init__(self) -> None:
        self.stats = EngineStats()
        self.on_step: StepListener = lambda report: None
        self._mailboxes: dict[str, Mailbox] = {}
        self._numbers = count()

    async def generate(self, prompt_ids: list[int], params: DecodingParams) -> AsyncGenerator[CanvasEvent, None]:
        """Run one request; yields its events until the one with ``finish``.

        Leaving the iteration early (``aclose``, cancellation) cancels the request in the engine within one step.
        Raises ``EngineUnavailableError`` if the engine is gone, or the error with which it refused this request.
        """
        request_id = str(next(self._numbers))
        mailbox = self._mailboxes[request_id] = Mailbox()
        over = False
        try:
            self._send(wire.Submit(request_id, prompt_ids, params))
            while not over:
                event = await mailbox.get()
                over = event.last
                _raise_if_failed(event)
                yield event
        finally:
            del self._mailboxes[request_id]
            if not over:
                self._send(wire.Cancel(request_id))

    @property
    @abc.abstractmethod
    def alive(self) -> bool:
        """Whether the engine takes requests."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Stop the engine; running requests end with an error."""

    @abc.abstractmethod
    def _send(self, command: wire.Command) -> None:
        """Hand ``command`` to the engine without waiting."""

    def _deliver(self, report: StepReport) -> None:
        self.stats = report.stats
        self.on_step(report)
        for event in report.events:
            if mailbox := self._mailboxes.get(event.request_id):
                mailbox.put(event)

    def _fail_all(self, reason: str) -> None:
        self.stats = EngineStats()
        for request_id, mailbox in self._mailboxes.items():
            mailbox.put(CanvasEvent.failure(request_id, EngineUnavailableError.code, reason))


def _raise_if_failed(event: CanvasEvent) -> None:
    if event.error is not None:
        raise UnmaskError.from_code(*event.error)

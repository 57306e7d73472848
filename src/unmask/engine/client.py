"""How everything outside the engine talks to it: submit a prompt, iterate over its canvas events.

``EngineClient`` routes reports to waiting requests; its two twins differ only in where the engine lives:
``ProcessEngine`` in a process of its own (serving), ``ThreadEngine`` in a thread of this one (Python API).
"""

from __future__ import annotations

import abc
import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import count
from typing import TYPE_CHECKING

from unmask.engine import wire
from unmask.engine.options import EngineOptions
from unmask.errors import EngineUnavailableError, UnmaskError
from unmask.events import CanvasEvent, EngineStats, StepReport
from unmask.params import DecodingParams, ModelInfo

if TYPE_CHECKING:  # an HTTP server talks to an engine process; it must not pay for importing torch
    from unmask.engine.loop import EngineLoop

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
        finished = False
        try:
            self._send(wire.Submit(request_id, prompt_ids, params))
            while not finished:
                event = await mailbox.get()
                finished = event.finish is not None
                _raise_if_failed(event)
                yield event
        finally:
            del self._mailboxes[request_id]
            if not finished:
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


class ProcessEngine(EngineClient):
    """The engine in its own process: this process never runs a forward. Start it with ``launch``."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        super().__init__()
        self._process, self._reader, self._writer = process, reader, writer
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def launch(cls, options: EngineOptions, progress: Progress = lambda share: None) -> ProcessEngine:
        """Start the process and wait until the model is loaded. Raises the ``UnmaskError`` that loading met."""
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", "unmask.engine.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | options.as_environment(),
            start_new_session=True,  # Ctrl-C reaches the server, which then stops its engine in order
        )
        theirs.close()
        self = cls(process, *await asyncio.open_unix_connection(sock=ours))
        try:
            await self._await_ready(progress)
        except BaseException:
            await self.close()
            raise
        self._reading = asyncio.create_task(self._read())
        return self

    async def _await_ready(self, progress: Progress) -> None:
        while (message := await self._receive()) is not None:
            if isinstance(message, wire.Loading):
                progress(message.share)
            elif isinstance(message, wire.Ready):
                self.model = message.model
                return
            elif isinstance(message, wire.LoadFailed):
                raise UnmaskError.from_code(message.code, message.message, message.hint)
        raise EngineUnavailableError(
            f"The engine process ended while loading (exit code {self._process.wait()}).",
            hint="Its last words stand above; out of memory is the usual cause.",
        )

    async def _receive(self) -> wire.Message | None:
        try:
            header = await self._reader.readexactly(wire.HEADER.size)
            return wire.unpack_message(await self._reader.readexactly(wire.HEADER.unpack(header)[0]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def _read(self) -> None:
        while (message := await self._receive()) is not None:
            if isinstance(message, StepReport):
                self._deliver(message)
        self._fail_all("The engine process has died; see the server's log.")

    @property
    def alive(self) -> bool:
        """Whether the process runs and its reader listens."""
        return self._process.poll() is None and self._reading is not None and not self._reading.done()

    def _send(self, command: wire.Command) -> None:
        if not self._writer.is_closing():
            self._writer.write(wire.pack(command))
        elif isinstance(command, wire.Submit):
            raise EngineUnavailableError("The engine process is not running.", hint="Restart the server.")

    async def close(self) -> None:
        """Ask the process to end, then make sure that it does."""
        self._send(wire.Shutdown())
        self._writer.close()
        try:
            await asyncio.to_thread(self._process.wait, 10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        if self._reading is not None:
            await self._reading


class ThreadEngine(EngineClient):
    """The in-process twin: the same loop in a thread of this process."""

    def __init__(self, loop: EngineLoop) -> None:
        super().__init__()
        self.model = loop.model
        self._loop = loop
        self._asyncio = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="unmask-engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        def publish(report: StepReport) -> None:
            self._asyncio.call_soon_threadsafe(self._deliver, report)

        self._loop.run(publish)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _send(self, command: wire.Command) -> None:
        if not self.alive and isinstance(command, wire.Submit):
            raise EngineUnavailableError("The engine is closed.", hint="Create a new one.")
        self._loop.send(command)

    async def close(self) -> None:
        """Stop the loop after its running step."""
        self._loop.send(wire.Shutdown())
        await asyncio.to_thread(self._thread.join)
        self._fail_all("The engine was closed.")

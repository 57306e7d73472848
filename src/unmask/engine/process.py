"""The engine in a process of its own. Nothing here imports torch: the process that serves HTTP never needs it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Self

from unmask.engine import wire
from unmask.engine.client import EngineClient, Progress
from unmask.engine.options import EngineOptions
from unmask.engine.session_place import SessionPlace
from unmask.errors import EngineUnavailableError, UnmaskError
from unmask.events import StepReport
from unmask.session_store import SAVE_SECONDS

SessionListener = Callable[[wire.Session], None]

_END_SECONDS = 1.0  # what the running step gets to end when the engine is closed
_GONE = "The engine process has died or can no longer be heard; see the server's log."


class ProcessEngine(EngineClient):
    """The engine in its own process: this process never runs a forward. Start it with ``launch``."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_session: SessionListener | None = None,
    ) -> None:
        super().__init__()
        self._on_session = on_session
        self._process, self._reader, self._writer = process, reader, writer
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def launch(
        cls,
        options: EngineOptions,
        progress: Progress = lambda share: None,
        place: SessionPlace | None = None,
        on_session: SessionListener = lambda session: None,
        *,
        words: int | None = None,
    ) -> Self:
        """Start the process and wait until the model is loaded. Raises the ``UnmaskError`` that loading met.

        At ``place`` the engine finds what it had in a life before, and leaves what it has; ``on_session`` is told.
        ``words``: the descriptor that its standard error goes to; None leaves it with this process's own.
        """
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-m", "unmask.engine.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=words,
            env=os.environ | options.as_environment() | ({} if place is None else place.as_environment()),
            start_new_session=True,  # Ctrl-C reaches the server, which then stops its engine in order
        )
        theirs.close()
        connection = await asyncio.open_unix_connection(sock=ours)
        self = cls(process, *connection, None if place is None else on_session)
        try:
            await self._await_ready(progress)
        except BaseException:
            process.kill()  # it holds no requests yet, and need not read its weights to the end first
            await self.close()
            raise
        self._reading = asyncio.create_task(self._read())
        return self

    async def _await_ready(self, progress: Progress) -> None:
        while (message := await self._receive()) is not None:
            if isinstance(message, wire.Loading):
                progress(message.share)
            elif isinstance(message, wire.Session):
                self._tell(message)
            elif isinstance(message, wire.Ready):
                self.models = {model.adapter: model for model in message.models}
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
        """Deliver reports until the process ends, or a bug of ours does: either way nobody is left waiting."""
        try:
            while (message := await self._receive()) is not None:
                if isinstance(message, StepReport):
                    self._deliver(message)
                elif isinstance(message, wire.Session):
                    self._tell(message)
        except Exception:
            traceback.print_exc()
        finally:
            self._fail_all(EngineUnavailableError(_GONE))

    def _tell(self, session: wire.Session) -> None:
        if self._on_session is not None:
            self._on_session(session)

    @property
    def alive(self) -> bool:
        """Whether the process runs and its reader listens."""
        return self._process.poll() is None and self._reading is not None and not self._reading.done()

    def _send(self, command: wire.Command) -> None:
        if isinstance(command, wire.Submit) and not self.alive:
            raise EngineUnavailableError("The engine process is not running.", hint="Restart the server.")
        if not self._writer.is_closing():
            self._writer.write(wire.pack(command))

    async def wait_closed(self) -> str:
        """Wait until the engine, once launched, takes no requests any more; why."""
        if self._reading is not None:
            await asyncio.wait([self._reading])
        return _GONE

    async def close(self) -> None:
        """Ask the process to end, then make sure that it does."""
        self.end(
            self._refusal
            or EngineUnavailableError("The engine was stopped.", hint="Ask again: a server loads the model anew.")
        )
        self._send(wire.Shutdown())
        keeps = self._on_session is not None and self._reading is not None
        if not keeps:  # else it has something to say yet
            self._writer.close()
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS + (SAVE_SECONDS if keeps else 0))
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        if self._reading is not None:
            await self._reading
        self._writer.close()

"""The engine in a thread of this process: the in-process twin, for the Python API and for tests."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

from unmask.engine import wire
from unmask.engine.client import EngineClient
from unmask.engine.loop import EngineLoop
from unmask.errors import EngineUnavailableError
from unmask.events import StepReport


class ThreadEngine(EngineClient):
    """The in-process twin: the same loop in a thread of this process."""

    def __init__(self, loop: EngineLoop) -> None:
        super().__init__()
        self.models = loop.models
        self._loop = loop
        self._asyncio = asyncio.get_running_loop()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="unmask-engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        def publish(report: StepReport) -> None:
            self._asyncio.call_soon_threadsafe(self._deliver, report)

        try:
            self._loop.run(publish)
        finally:
            self._ended = True  # first: what is submitted from here on is refused, what was before is told below
            with suppress(RuntimeError):  # the event loop may be closed already; then nobody waits
                self._asyncio.call_soon_threadsafe(self._fail_all, EngineUnavailableError("The engine has stopped."))

    @property
    def alive(self) -> bool:
        """Whether the loop runs."""
        return not self._ended

    def _send(self, command: wire.Command) -> None:
        if not self.alive and isinstance(command, wire.Submit):
            raise EngineUnavailableError("The engine has stopped.", hint="Create a new one.")
        self._loop.send(command)

    async def close(self) -> None:
        """Stop the loop after its running step."""
        self._loop.send(wire.Shutdown())
        await asyncio.to_thread(self._thread.join)

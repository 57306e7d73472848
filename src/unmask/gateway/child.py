"""A supervised child process that serves one model over HTTP on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from unmask.errors import EngineCrashedError, ModelLoadFailedError, ModelLoadTimeoutError, PortBusyError, UnmaskError
from unmask.gateway.child_log import TAIL_LINES, ChildLog
from unmask.gateway.log_file import LogFile
from unmask.gateway.plan import ChildPlan
from unmask.gateway.ports import LOOPBACK, HeldPort
from unmask.gateway.process import KeptProcess
from unmask.gateway.readiness import await_ready
from unmask.gateway.run_directory import RunDirectory
from unmask.gateway.telling import explain_end
from unmask.shown import cut

GRACE_SECONDS = 5.0
_PORTS = 3  # are tried, if other programs take them
_LOG_SECONDS = 2.0  # for the last lines of a process that has ended


class Child:
    """A process that is ready, or has been; ``start`` makes it. It must be closed, also when it has died.

    Requests go to ``url`` and carry ``secret`` as a bearer token. ``load_seconds`` is what it took to be ready, None
    until then. All methods belong to the event loop that started it.
    """

    def __init__(
        self, plan: ChildPlan, url: str, secret: str, process: KeptProcess, log: ChildLog, record: Path | None
    ) -> None:
        self.plan = plan
        self.url = url
        self.secret = secret
        self.load_seconds: float | None = None
        self._process, self._log, self._record = process, log, record

    @classmethod
    async def start(cls, plan: ChildPlan, directory: RunDirectory) -> Child:
        """Start ``plan``, and wait until it has written a token. What does not get so far is ended before this raises.

        Raises ``ModelLoadTimeoutError`` after ``plan.start_seconds``, ``PortBusyError`` if other programs take one port
        after the other, ``ModelLoadFailedError``, or what else the child's words stand for.
        """
        while True:
            self = await cls._start_somewhere(plan, directory)
            if await self._restore():
                return self
            await self.close(0)  # what it was given to remember was too much for it: another one, without that

    @classmethod
    async def _start_somewhere(cls, plan: ChildPlan, directory: RunDirectory) -> Child:
        for _ in range(_PORTS - 1):
            try:
                return await cls._start(plan, directory)
            except PortBusyError:
                continue
        return await cls._start(plan, directory)

    @classmethod
    async def _start(cls, plan: ChildPlan, directory: RunDirectory) -> Child:
        begun, port = time.monotonic(), HeldPort()
        try:
            self = await cls._spawn(plan, port.number, directory)
            try:
                await self._await_ready()
            except BaseException:
                await self.close(0)
                raise
        finally:
            port.release()
        self.load_seconds = time.monotonic() - begun
        return self

    @classmethod
    async def _spawn(cls, plan: ChildPlan, port: int, directory: RunDirectory) -> Child:
        secret = secrets.token_urlsafe(32)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("UNMASK_")}
        environment = inherited | dict(plan.environment) | {plan.secret_variable: secret}
        source, sink = os.pipe()
        log = ChildLog(source, LogFile(directory.log_path(plan.name)))
        log.note(f"{time.strftime('%Y-%m-%d %H:%M:%S')} starting the engine of model '{plan.name}' on port {port}")
        try:
            process = await KeptProcess.launch(plan.command(port), environment, sink)
        except BaseException:
            log.close(0)
            raise
        finally:
            os.close(sink)
        return cls(plan, f"http://{LOOPBACK}:{port}", secret, process, log, directory.add(plan.name, process))

    async def _restore(self) -> bool:
        """Give it what was kept of a life before; whether it lives on."""
        if self.plan.sessions is None:
            return True
        try:
            return await self.plan.sessions.restore(self.url, self.secret)
        except BaseException:  # given up at this very moment
            await self.close(0)
            raise

    async def _await_ready(self) -> None:
        """Raises the error that makes it useless to wait any longer."""
        asking = asyncio.create_task(await_ready(self.url, self.secret, self.plan))
        ending = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait((asking, ending), timeout=self.plan.start_seconds, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                await asking
            if ending.done():
                raise await self.explain_end()
            if not asking.done():
                raise self._late()
        finally:
            asking.cancel()
            ending.cancel()
            await asyncio.gather(asking, ending, return_exceptions=True)

    def _late(self) -> ModelLoadTimeoutError:
        said = self.telling_line()
        words = f"It last said: '{cut(said)}'." if said else "It said nothing."
        return ModelLoadTimeoutError(
            f"The engine of model '{self.plan.name}' was not ready within {self.plan.start_seconds:g} s. {words}",
            hint="Give it more time, or a smaller model.",
        )

    @property
    def pid(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """How the process ended, negative for a signal; None as long as it runs."""
        return self._process.status

    @property
    def lost_lines(self) -> int:
        """Lines that did not get to the disk."""
        return self._log.file.lost

    def tail(self, lines: int = TAIL_LINES) -> list[str]:
        """What the process wrote last."""
        return self._log.tail(lines)

    def telling_line(self) -> str:
        """Of what the process wrote, the line that explains its death; else the last one, or "" if it wrote nothing."""
        return self._log.telling_line()

    async def wait(self) -> int:
        """How the process ended, as soon as it has."""
        return await self._process.wait()

    async def explain_end(self) -> UnmaskError:
        """The error of requests that were under way when the process ended, and of the load that it ended in."""
        status = await self.wait()
        await asyncio.to_thread(self._log.join, _LOG_SECONDS)
        kind = ModelLoadFailedError if self.load_seconds is None else EngineCrashedError
        return explain_end(status, self.plan.name, kind, self._log.clues.best(), self.telling_line(), self.plan.own)

    async def close(self, grace: float = GRACE_SECONDS) -> None:
        """Ask the process to end, and kill after ``grace`` seconds what is left of it and of all that it started.

        Before it is asked, what it knows is kept, if that is wanted; not if it is to be killed at once.
        """
        sessions = self.plan.sessions
        ready = self.load_seconds is not None and self.status is None
        if sessions is not None and ready and grace and not await sessions.save(self.url, self.secret):
            grace = 0
        await self._process.end(grace)
        await asyncio.to_thread(self._log.close, _LOG_SECONDS)
        if self._record is not None:
            with suppress(OSError):  # the next gateway finds that nobody lives there
                self._record.unlink()

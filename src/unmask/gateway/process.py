"""A process under a keeper, as the gateway sees it. Where the gateway ends, in whatever way, the process does too."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from unmask.errors import ModelLoadFailedError
from unmask.gateway import keeper
from unmask.shown import cut, printable

_MARGIN_SECONDS = 3.0  # what the keeper gets beyond the grace, to kill and to end


class KeptProcess:
    """A running process and its keeper; ``launch`` starts them. ``pid`` is the process's own, and its group's.

    ``status`` is how the process ended, negative for a signal; None as long as it runs.
    """

    def __init__(
        self, keeper_process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = 0
        self.keeper_pid = keeper_process.pid
        self.status: int | None = None
        self._keeper = keeper_process
        self._reader, self._writer = reader, writer
        self._ended = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def launch(cls, command: Sequence[str], environment: Mapping[str, str], output: int) -> KeptProcess:
        """Start ``command``, in exactly that environment; what it writes goes to the descriptor ``output``.

        Raises ``ModelLoadFailedError`` if there is no such program.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                kept = _start_keeper(theirs, command, environment, output)
            except (OSError, ValueError) as error:  # no memory for a process; a name with a NUL in it
                ours.close()
                raise _not_started(command, str(error)) from None
        try:
            self = cls(kept, *await asyncio.open_unix_connection(sock=ours))
        except BaseException:  # given up at this very moment
            ours.close()
            await asyncio.to_thread(kept.wait)
            raise
        try:
            said, _, rest = (await self._reader.readline()).decode(errors="replace").strip().partition(" ")
            if said != "started":
                raise _not_started(command, rest or "its keeper ended")
            self.pid = int(rest)
        finally:
            self._reading = asyncio.create_task(self._read())
            if not self.pid:
                await self.end(0)
        return self

    async def _read(self) -> None:
        """Until the keeper has ended."""
        with suppress(ConnectionError):
            while line := await self._reader.readline():
                if line.startswith(b"ended "):
                    self._note_end(int(line[6:]))
        self._kill_group()  # the keeper may have been killed; where nothing binds the process to it, that lives on
        await asyncio.to_thread(self._keeper.wait)
        self._note_end(-signal.SIGKILL)

    def _note_end(self, status: int) -> None:
        if self.status is None:
            self.status = status
        self._ended.set()

    def _kill_group(self) -> None:
        if self.pid and self.status is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        """How the process ended, once it has."""
        await self._ended.wait()
        assert self.status is not None
        return self.status

    async def end(self, grace: float) -> None:
        """Ask the process to end, and after ``grace`` seconds kill it and all that it started. 0 kills at once.

        Afterwards nothing of it is left, nor of its keeper. A second call waits for the first one's end.
        """
        assert self._reading is not None
        if grace > 0 and not self._writer.is_closing():
            self._writer.write(f"end {grace}\n".encode())
        else:
            self._writer.close()
        try:
            async with asyncio.timeout(grace + _MARGIN_SECONDS):
                await asyncio.shield(self._reading)
        except TimeoutError:  # somebody has stopped the keeper
            self._kill_group()
            self._keeper.kill()
            await self._reading
        finally:
            self._writer.close()


def _start_keeper(
    lifeline: socket.socket, command: Sequence[str], environment: Mapping[str, str], output: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", keeper.__file__, str(lifeline.fileno()), *command],
        pass_fds=[lifeline.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=environment,
        start_new_session=True,  # Ctrl-C reaches the server, which then ends its children in order
    )


def _not_started(command: Sequence[str], why: str) -> ModelLoadFailedError:
    return ModelLoadFailedError(
        f"{printable(command[0])} could not be started: {cut(printable(why))}.",
        hint="Check that the program is there and may be run.",
    )

"""The engine process: load the model, then run the loop over a socket inherited from the parent.

Started as ``python -m unmask.engine.worker FD``. A reader thread turns bytes into commands; the loop publishes
one message per step. The process ends when told to, or when the parent goes away, be it while the model loads or in
the middle of a long step.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn

from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.engine.session_place import SessionPlace
from unmask.errors import UnmaskError
from unmask.events import StepReport
from unmask.session_store import SAVE_SECONDS

_END_SECONDS = 1.0  # what the running step gets to end when nobody can read its report


def main() -> int:
    """Serve until shut down; 1 if the model could not be loaded."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    reader = Reader(connection)
    reader.start()
    try:
        with suppress(ConnectionError):  # the parent is gone, and everyone we could report to
            return _serve(connection, reader)
        return 0
    finally:
        reader.stop()


def _serve(connection: socket.socket, reader: Reader) -> int:
    last_shown = 0

    def progress(share: float) -> None:
        nonlocal last_shown
        if (percent := int(share * 100)) > last_shown:
            last_shown = percent
            connection.sendall(wire.pack(wire.Loading(share)))

    try:
        options = EngineOptions.from_environment()
        options = replace(options, threads=options.threads or default_threads())
        loop = reader.loop = EngineLoop(options, progress, SessionPlace.from_environment())
    except UnmaskError as error:
        connection.sendall(wire.pack(wire.LoadFailed(error.code, error.message, error.hint)))
        return 1
    if loop.sessions is not None:
        connection.sendall(wire.pack(loop.sessions.restore()))
    connection.sendall(wire.pack(wire.Ready(list(loop.models.values()))))

    def publish(report: StepReport) -> None:
        # Waits if the parent is slower to read than we step: better to slow down than to hoard its reports.
        connection.sendall(wire.pack(report))

    loop.run(publish)
    if loop.sessions is not None and reader.told:
        connection.sendall(wire.pack(loop.sessions.save()))
    return 0


def default_threads() -> int:
    """All cores but one: forwards whose threads wait for the parent's to leave a core take many times as long."""
    return max(1, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 2) - 1)


class Reader(threading.Thread):
    """Hands the parent's commands to ``loop``, which is None while the model loads.

    Until then a parent has nothing to say: the end of the stream is all that can come, and it ends the process at
    once, however long the loading would go on or hang. Later it shuts the loop down, and ends the process if a step
    goes on for ``_END_SECONDS``, and what is kept for ``SAVE_SECONDS``. ``told``: the parent has said that it is over.
    """

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(name="unmask-reader", daemon=True)
        self.loop: EngineLoop | None = None
        self.told = False
        self._connection = connection
        self._stopping = threading.Event()

    def run(self) -> None:
        """Read until the end of the stream."""
        try:
            with suppress(ConnectionError):
                self._read()
        finally:  # whatever ended the reading: an engine that nobody can reach must not live on
            if self.loop is not None:
                self.loop.send(wire.Shutdown())
            if not self._stopping.wait(self._patience):
                os._exit(1)

    @property
    def _patience(self) -> float:
        if self.loop is None:
            return 0
        return _END_SECONDS + (SAVE_SECONDS if self.told and self.loop.sessions is not None else 0)

    def _read(self) -> None:
        stream = self._connection.makefile("rb")
        while len(header := stream.read(wire.HEADER.size)) == wire.HEADER.size:
            (size,) = wire.HEADER.unpack(header)
            body = stream.read(size)
            if self.loop is None or len(body) < size:
                return
            command = wire.unpack_command(body)
            self.told = self.told or isinstance(command, wire.Shutdown)
            self.loop.send(command)

    def stop(self) -> None:
        """End the reading and wait for it: a thread that still reads can abort the interpreter's shutdown."""
        self._stopping.set()
        with suppress(OSError):  # the parent may have closed the connection already
            self._connection.shutdown(socket.SHUT_RDWR)
        self.join()


def _leave(status: int) -> NoReturn:
    """End the process at once: Python's own way out takes half a second to take torch apart, and nothing is lost."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _leave(main())

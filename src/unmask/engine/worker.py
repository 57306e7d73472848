"""The engine process: load the model, then run the loop over a socket inherited from the parent.

Started as ``python -m unmask.engine.worker FD``. A reader thread turns bytes into commands; the loop publishes
one message per step. The process ends when told to, or when the parent goes away.
"""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress

from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.errors import UnmaskError
from unmask.events import StepReport


def main() -> int:
    """Serve until shut down; 1 if the model could not be loaded."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    last_shown = 0

    def progress(share: float) -> None:
        nonlocal last_shown
        if (percent := int(share * 100)) > last_shown:
            last_shown = percent
            connection.sendall(wire.pack(wire.Loading(share)))

    try:
        loop = EngineLoop(EngineOptions.from_environment(), progress)
    except UnmaskError as error:
        connection.sendall(wire.pack(wire.LoadFailed(error.code, error.message, error.hint)))
        return 1
    connection.sendall(wire.pack(wire.Ready(loop.model)))
    threading.Thread(target=_read, args=(connection, loop), daemon=True).start()

    def publish(report: StepReport) -> None:
        # Waits if the parent is slower to read than we step: better to slow down than to hoard its reports.
        connection.sendall(wire.pack(report))

    with suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone, and everyone we could report to
        loop.run(publish)
    return 0


def _read(connection: socket.socket, loop: EngineLoop) -> None:
    stream = connection.makefile("rb")
    try:
        while header := stream.read(wire.HEADER.size):
            loop.send(wire.unpack_command(stream.read(wire.HEADER.unpack(header)[0])))
    finally:  # whatever ended the reading: an engine that nobody can reach must not live on
        loop.send(wire.Shutdown())


if __name__ == "__main__":
    sys.exit(main())

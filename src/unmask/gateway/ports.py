"""A port of this machine that is kept free for a child until the child listens there."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class HeldPort:
    """A free port: bound, which keeps the system from giving it to anybody else, and not listening.

    A child that binds it with ``SO_REUSEADDR`` or ``SO_REUSEPORT``, as servers do, may listen there all the same. So
    may another program that asks for this very port: who listens must be verified.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Hold it no longer."""
        self._socket.close()

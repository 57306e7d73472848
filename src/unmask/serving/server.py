"""The life of a server process: claim the port, load the engine, serve, stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import structlog
import uvicorn
from fastapi import FastAPI

from unmask.engine.client import Progress
from unmask.errors import InvalidValueError, PortBusyError, ShuttingDownError
from unmask.serving.app import create_app
from unmask.serving.house import House
from unmask.serving.http_protocol import ConnectionLimits, bounded_protocol
from unmask.serving.response_store import ResponseStore
from unmask.serving.security import key_file
from unmask.serving.settings import ServerSettings

_LAST_SECONDS = 0.5  # what clients get to read that their requests were ended, then what ends without them
_TICK_SECONDS = 0.05

_log = structlog.get_logger()

Announce = Callable[[House, str], None]


def claim(host: str, port: int) -> socket.socket:
    """A socket that listens on the address, so that nobody else can take it while the model loads.

    To be bound is not enough: a second server could bind the same port, and lose it only once it has loaded too.
    Who connects meanwhile is answered when the model is there.

    Raises ``PortBusyError``, or ``InvalidValueError`` for an address that is not this machine's.
    """
    try:
        return _listen(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortBusyError(
                f"Port {port} on {host} is in use by another process.",
                hint="Stop that process, or choose another port with --port.",
            ) from None
        raise InvalidValueError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}.",
            hint="Choose another --host or --port.",
            param="host",
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


async def run_server(
    open_house: Callable[[], House], settings: ServerSettings, *, progress: Progress, announce: Announce
) -> None:
    """Serve a house until SIGINT or SIGTERM; ``announce`` is called with it and a URL once requests are taken.

    Raises what opening and loading raise; interrupted meanwhile, ``KeyboardInterrupt`` or ``CancelledError``.
    """
    configure_log()
    if settings.keys is not None:
        key_file.read(settings.keys)  # before the model loads: a broken one ends the server
    with (
        contextlib.closing(ResponseStore(settings.store)) as responses,
        contextlib.closing(claim(settings.host, settings.port)) as listener,
    ):
        this = asyncio.current_task()
        assert this is not None
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the loop would hear of it once all is downloaded
        house = open_house()
        _on_signal(this.cancel)
        try:
            await house.preload(progress)
            url = _url(listener)
            config = server_config(create_app(house, settings, responses), settings)
            server = _Server(config, house, settings.grace_seconds, lambda: announce(house, url))
            _on_signal(partial(server.handle_exit, signal.SIGINT, None))  # a second signal ends the grace
            gc.freeze()  # all this stays: neither collections nor the interpreter's end need to walk through it
            await server.serve(sockets=[listener])
        finally:
            await house.close()


def _on_signal(act: Callable[[], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, act)


class _Server(uvicorn.Server):
    """uvicorn, but signals stay ours from loading to the engine's end, and it says when it listens."""

    def __init__(self, config: uvicorn.Config, house: House, grace: float, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._house = house
        self._grace = grace
        self._listening = listening

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Nothing new is begun: who asks is told why. Running requests get their grace; those left then end with the
        same error. A second signal ends the grace.
        """
        self._house.stopping = True
        if self._busy:
            _log.info("stopping", running=len(self.server_state.tasks), grace_seconds=self._grace)
        await self._settle(self._grace, lambda: self.force_exit)
        self._house.end(ShuttingDownError())
        await asyncio.gather(self._house.close(), self._settle(_LAST_SECONDS))
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self._settle(_LAST_SECONDS)

    async def _settle(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until all that was asked is answered, or ``enough``, for at most so many seconds."""
        due = time.monotonic() + seconds
        while self._busy and time.monotonic() < due and not enough():
            await asyncio.sleep(_TICK_SECONDS)

    @property
    def _busy(self) -> bool:
        """Whether requests are being answered, or answers are on their way."""
        state = self.server_state
        return bool(state.tasks) or any(
            connection.transport.get_write_buffer_size() for connection in state.connections
        )


def server_config(app: FastAPI, settings: ServerSettings) -> uvicorn.Config:
    """How uvicorn serves ``app``: connections within bounds, no word of its own, and no trust in proxies' headers."""
    limits = ConnectionLimits(settings.max_connections, settings.receive_seconds, settings.stall_seconds)
    return uvicorn.Config(
        app,
        http=bounded_protocol(limits, app.state.errors),
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_LOG_ORDER = ("timestamp", "level", "event", "request_id", "method", "path")


def configure_log() -> None:
    """Structured log lines on stderr, each with its request's id."""
    plain = structlog.processors.LogfmtRenderer(key_order=_LOG_ORDER, drop_missing=True)
    render = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if sys.stderr.isatty()
        else [structlog.processors.format_exc_info, plain]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *render,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )

"""What a server is started with, besides its engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from unmask.terms import NO_TIMEOUTS, Timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where to listen and what to allow.

    ``served_name``: the model's name on the wire; None takes the checkpoint's. ``max_waiting``: requests that
    may wait beyond those running. ``timeouts``: how long requests may wait, and take. ``max_body_bytes``: more than a
    context holds, and little enough to be checked while other requests wait. ``keep_alive_seconds``: silence on a
    stream before a comment line is sent. ``store``: the file that responses are kept in; None keeps them in memory.

    ``api_key`` opens everything, ``keys`` is a file of keys; without both everybody may do everything.
    ``allowed_hosts``: names of this server besides its address; ``allowed_origins``: sites whose pages may use it; "*"
    is any. ``grace_seconds``: what running requests get to finish once the server is told to stop. ``access_log``: a
    line for each request. ``max_connections`` are open at once. ``receive_seconds``: in which a request's headers, then
    its body, must arrive. ``stall_seconds``: for how long a client may take nothing of its answer. ``response_cache``:
    bytes that kept answers may take; 0 keeps none. ``silence_seconds``: after which an answer that makes no progress
    is told of. ``canary``: ask the model a few things before it is served. ``session_store``: bytes that conversations
    of models that are not loaded may take on disk; 0 keeps none, None leaves it to the configuration.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    served_name: str | None = None
    api_key: str | None = field(default=None, repr=False)
    max_waiting: int = 128
    timeouts: Timeouts = NO_TIMEOUTS
    max_body_bytes: int = 2**20
    keep_alive_seconds: float = 15.0
    keys: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    grace_seconds: float = 30.0
    access_log: bool = False
    max_connections: int = 900
    receive_seconds: float = 30.0
    stall_seconds: float = 60.0
    store: Path | None = None
    response_cache: int = 0
    silence_seconds: float = 30.0
    canary: bool = False
    session_store: int | None = None

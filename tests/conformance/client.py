"""Clients in their own environments: which there are, and how a test makes one ask."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.dialects import DIALECTS, Dialect
from tests.conformance.environments import NEW, NODE, OLD, Environment

DRIVERS = Path(__file__).parent / "drivers"
PATIENCE = 60  # seconds that a driver may take for one line


@dataclass(frozen=True)
class Client:
    """One version of one client library; ``modes`` by the name of the dialect."""

    name: str
    environment: Environment
    driver: str
    modes: dict[str, tuple[str, ...]]
    errors: dict[int, str]
    strict: bool = False  # whether it refuses by itself fields that it does not know

    @property
    def pairs(self) -> list[tuple[Dialect, str]]:
        """The dialects and modes that this client has."""
        return [(dialect, mode) for dialect in DIALECTS for mode in self.modes.get(dialect.name, ())]

    def command(self) -> list[str]:
        if self.environment.node:
            return ["node", str(DRIVERS / f"{self.driver}.cjs")]
        return [self.environment.program("python"), str(DRIVERS / f"{self.driver}.py")]

    def error_class(self, status: int) -> str:
        """What the library raises for a response of ``status``."""
        return self.errors.get(status, self.errors[500])

    def __str__(self) -> str:
        return self.name


_BY_STATUS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
}
_FINER = {503: "ServiceUnavailableError"}
_OPENAI = {
    "chat": ("whole", "stream", "helper"),
    "completions": ("whole", "stream"),
    "responses": ("whole", "stream", "helper"),
}
_ANTHROPIC = {"messages": ("whole", "stream", "helper")}
_OLLAMA = {"ollama-chat": ("whole", "stream"), "ollama-generate": ("whole", "stream")}

CLIENTS = (
    Client("openai-1", OLD, "openai_client", _OPENAI, _BY_STATUS),
    Client("openai-3", NEW, "openai_client", _OPENAI, _BY_STATUS),
    Client("openai-js-6", NODE, "openai_client", _OPENAI, _BY_STATUS),
    Client("ai-js-6", NODE, "ai_client", {"chat": ("whole", "stream")}, {500: "APICallError"}),
    Client("anthropic-0", OLD, "anthropic_client", _ANTHROPIC, _BY_STATUS),
    Client("anthropic-2", NEW, "anthropic_client", _ANTHROPIC, _BY_STATUS | _FINER),
    Client("anthropic-js-1", NODE, "anthropic_client", _ANTHROPIC, _BY_STATUS | _FINER),
    Client("ollama-0.5", OLD, "ollama_client", _OLLAMA, {500: "ResponseError"}, strict=True),
    Client("ollama-0.6", NEW, "ollama_client", _OLLAMA, {500: "ResponseError"}, strict=True),
    Client("ollama-js-0.6", NODE, "ollama_client", _OLLAMA, {500: "ResponseError"}),
)


@dataclass(frozen=True)
class Job:
    """One request for a client to make. ``leave_after``: as many pieces of text, then it goes away."""

    url: str
    dialect: Dialect
    mode: str
    request: dict[str, Any]
    leave_after: int | None = None
    timeout: float = PATIENCE
    key: str = "none"

    def line(self) -> str:
        fields = {name: getattr(self, name) for name in ("url", "mode", "request", "leave_after", "timeout", "key")}
        return json.dumps(fields | {"dialect": self.dialect.name})


class Driver:
    """A client's own process. It lives as long as the tests do, so that it is started once."""

    def __init__(self, client: Client) -> None:
        modules = {"NODE_PATH": str(client.environment.home / "node_modules")}
        self._process = subprocess.Popen(
            client.command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_plain_environment() | modules,
        )
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.can = self._next()["can"]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))

    def _next(self) -> dict[str, Any]:
        return self._lines.get(timeout=PATIENCE)

    def send(self, job: Job) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(job.line() + "\n")
        self._process.stdin.flush()

    def first_delta(self) -> str:
        """The first piece of text of a job that was sent."""
        return self._next()["delta"]

    def seen(self) -> dict[str, Any]:
        """What the client saw, once its job is over."""
        while "seen" not in (line := self._next()):
            pass
        return line["seen"]

    def ask(self, job: Job) -> dict[str, Any]:
        self.send(job)
        return self.seen()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._reader.join()
            self._process.stdout.close()


def _plain_environment() -> dict[str, str]:
    """Without what would tell a client of another server, or let it import what is ours."""
    foreign = ("OPENAI_", "ANTHROPIC_", "OLLAMA_", "PYTHONPATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}

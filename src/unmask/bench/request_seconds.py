"""What a request takes outside the engine: measured at a client of a real server, on real sockets."""

from __future__ import annotations

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from unmask.engine.options import EngineOptions
from unmask.errors import EngineUnavailableError

_MAIN = "from unmask.cli.main import main; main()"
_REQUESTS = 40
_WARM_UP = 5
_BODY = {"prompt": "One two three four five six seven eight nine ten.", "max_tokens": 8}


def measure_request_seconds(engine: EngineOptions) -> float:
    """The median, over requests one at a time, of what the client waits beyond what the engine says it took.

    Raises ``EngineUnavailableError`` if the server does not start; it says why on standard error.
    """
    with _server(engine) as url:
        connection = http.client.HTTPConnection(url)
        try:
            return statistics.median([_beyond(connection) for _ in range(_WARM_UP + _REQUESTS)][_WARM_UP:])
        finally:
            connection.close()


def _beyond(connection: http.client.HTTPConnection) -> float:
    begun = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps(_BODY), {"content-type": "application/json"})
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    seconds = time.monotonic() - begun
    return max(0.0, seconds - float(answer["unmask"]["total_ms"]) / 1000)


@contextmanager
def _server(engine: EngineOptions) -> Iterator[str]:
    """A server of ``engine`` in a process of its own; gives its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", _MAIN, "serve", engine.model, "--port", "0", *_arguments(engine)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("UNMASK_")},
    )
    assert process.stderr is not None
    try:
        log = []
        for line in process.stderr:
            log.append(line)
            if found := re.search(r" on (http://\S+)$", line.strip()):
                yield urlsplit(found.group(1)).netloc
                return
        sys.stderr.writelines(log)
        raise EngineUnavailableError("The server to measure did not start.", hint="Its last words stand above.")
    finally:
        process.terminate()
        process.stderr.read()  # else it could wait for somebody to read its last words
        process.wait()
        process.stderr.close()


def _arguments(engine: EngineOptions) -> Iterator[str]:
    """The options of ``engine`` as ``unmask serve`` takes them."""
    for name in ("adapter", "device", "dtype", "quantize", "attention", "max_running", "max_rows", "kv_tokens"):
        value = getattr(engine, name)
        if value is not None:
            yield from (f"--{name.replace('_', '-')}", str(value))
    yield from ("--max-context", str(engine.max_context), "--threads", str(engine.threads))

"""A real `unmask serve` process on a free port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

UNMASK = str(Path(sys.executable).with_name("unmask"))


@dataclass
class Server:
    """A running server: where it listens, and what it has written on stderr."""

    url: str
    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 20) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout)


def environment() -> dict[str, str]:
    """This process's environment without settings that would leak into the server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("UNMASK_")}


@contextmanager
def serve(*arguments: str) -> Iterator[Server]:
    """Start a server and wait until it says where it listens."""
    process = subprocess.Popen(
        [UNMASK, "serve", "--port", "0", "--threads", "1", "--device", "cpu", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    server = Server("", process)
    listening = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            server.log.append(line)
            if found := re.search(r" on (http://\S+)$", line.strip()):
                server.url = found.group(1)
                listening.set()
        listening.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert listening.wait(60), "the server did not start in time"
        assert server.url, f"the server did not start: {''.join(server.log)}"
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            reader.join()
            process.stderr.close()

"""The parent of one engine process: ends it, and all that it started, once nobody wants it any more.

Run as a script: ``python -I -S keeper.py FD COMMAND...``. ``FD`` is a socket to the gateway, over which go lines of
text: to the gateway ``started PID``, ``failed REASON`` and ``ended STATUS``; to the keeper ``end SECONDS``, which asks
the engine to go and kills it after that time. The end of the stream kills it at once: the gateway is gone, in whatever
way.

The engine has a session of its own. What it starts, even in further sessions, falls to this process when its own parent
ends, and is killed when the engine has ended. On systems other than Linux that holds for the engine's group only.
Imports nothing of Unmask, to be small and quick to start.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

NOTE = "--- "  # begins lines of ours among those of an engine
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None) if _LINUX else None


def main() -> int:
    """Keep one engine until it has ended."""
    lifeline = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _ignore)  # SIG_IGN would be the engine's too
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would be as large as the model
    try:
        engine = subprocess.Popen(sys.argv[2:], start_new_session=True, preexec_fn=_Bond())
    except (OSError, ValueError) as error:
        _tell(lifeline, f"failed {error}")
        return 1
    _tell(lifeline, f"started {engine.pid}")
    threading.Thread(target=_obey, args=(lifeline, engine), daemon=True).start()
    status = _await_end(engine)
    with suppress(OSError):
        print(f"{NOTE}ended (status {status})", file=sys.stderr, flush=True)
    _tell(lifeline, f"ended {status}")
    _kill_orphans()
    return 0


def _ignore(*_: object) -> None:
    """Only the gateway ends a keeper."""


class _Bond:
    """Called in the engine's process before its program: it shall not outlive its keeper."""

    def __init__(self) -> None:
        self._keeper = os.getpid()

    def __call__(self) -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._keeper:  # it died before it could be bound to
            os._exit(1)


def _prctl(option: int, value: int) -> None:
    if _libc is not None:
        _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _tell(lifeline: socket.socket, line: str) -> None:
    with suppress(OSError):  # a gateway that is gone need not know
        lifeline.sendall(f"{line}\n".encode())


def _obey(lifeline: socket.socket, engine: subprocess.Popen[bytes]) -> None:
    """Do what the gateway says, until it says nothing more."""
    with suppress(OSError), lifeline.makefile("rb") as lines:
        for line in lines:
            if line.startswith(b"end "):
                _signal_group(engine, signal.SIGTERM)
                lifeline.settimeout(float(line[4:]))  # the next line, or the end of the stream, may come first
    _signal_group(engine, signal.SIGKILL)


def _await_end(engine: subprocess.Popen[bytes]) -> int:
    """How the engine ended. Its group is killed before its id can be anybody else's."""
    if _LINUX:
        os.waitid(os.P_PID, engine.pid, os.WEXITED | os.WNOWAIT)
        _signal_group(engine, signal.SIGKILL)
    return engine.wait()


def _signal_group(engine: subprocess.Popen[bytes], number: int) -> None:
    if engine.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(engine.pid, number)


def _kill_orphans() -> None:
    """Kill what the engine left behind, which by now are children of ours."""
    while _LINUX:
        for child in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Those of this process, by the parent that each process names after the name in parentheses."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state_and_parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state_and_parent[1] == str(os.getpid()):
                found.append(int(stat.parent.name))
    return found


if __name__ == "__main__":
    sys.exit(main())

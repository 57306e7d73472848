"""What there is to compute on, and what the system lets us do."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from unmask.checkpoints.hub import cache_directory
from unmask.cli.checks.finding import Finding
from unmask.cli.sizes import size
from unmask.home import home, sessions_folder
from unmask.session_store import held_in

_SECONDS = 20.0
_LITTLE = 2**30  # bytes of a disk


def cores() -> list[Finding]:
    """CPU cores, and how many of them this process may use."""
    there = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    quota = _quota()
    usable = allowed if quota is None else min(allowed, quota)
    said = f"{usable:g} of {there} cores may be used"
    if quota is not None and quota < allowed:
        said += ", by the quota of the control group"
        remedy = f"Start the server with --threads {max(1, int(quota))}: more threads than that hinder each other."
        return [Finding("cores", "warn", said, remedy)]
    if usable < 2:
        return [Finding("cores", "warn", said, "With two cores, one serves HTTP while the other computes.")]
    return [Finding("cores", "ok", said)]


def _quota() -> float | None:
    """The cores that the control group grants; None for as many as there are."""
    with suppress(OSError, ValueError):
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if allowed == "max" else int(allowed) / int(period)
    return None


def disks() -> list[Finding]:
    """Room where models are downloaded to, and where logs and records go."""
    places = {"disk of models": cache_directory(), "disk of Unmask's own files": home()}
    findings = []
    for name, path in places.items():
        try:
            free = shutil.disk_usage(_existing(path)).free
        except OSError as error:
            findings.append(Finding(name, "warn", f"{path}: {error.strerror}."))
            continue
        said = f"{free / 2**30:.1f} GiB are free for {path}"
        little = free < _LITTLE
        findings.append(Finding(name, "warn" if little else "ok", said, "Make room there." if little else ""))
    return findings


def own_folder() -> list[Finding]:
    """Whether Unmask may write into its folder."""
    path = home()
    where = _existing(path)
    if not where.is_dir():
        return [Finding("home", "fail", f"{where} is no folder.", "Set UNMASK_HOME to a folder.")]
    try:
        if where == path:
            with tempfile.TemporaryFile(dir=path):
                pass
        elif not os.access(where, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        return [
            Finding("home", "fail", f"{path} cannot be written: {error.strerror}.", "Set UNMASK_HOME to another one.")
        ]
    return [Finding("home", "ok", f"{path} {'can be written' if where == path else 'can be made'}")]


def sessions() -> list[Finding]:
    """What is kept of conversations with models that are not loaded, if anything is."""
    path = sessions_folder()
    try:
        files, taken = held_in(path)
    except OSError as error:
        return [Finding("sessions", "warn", f"{path} cannot be read: {error.strerror}.", "Mend its rights.")]
    if not files:
        return []
    said = f"conversations take {size(taken)}, in {files} files in {path}"
    return [Finding("sessions", "ok", said, "If nobody shall go on with them, delete them.")]


def _existing(path: Path) -> Path:
    """``path``, or the nearest folder above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def processes() -> list[Finding]:
    """Whether processes can be started: the engine is one."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", "print('here')"], capture_output=True, timeout=_SECONDS, check=False
        )
        if done.stdout.strip() == b"here":
            return [Finding("processes", "ok", "processes can be started")]
        said = f"a process ends with {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    return [Finding("processes", "fail", said, "Raise the limit of processes (ulimit -u), or of the container.")]


def loopback() -> list[Finding]:
    """Whether this machine can talk to itself: servers and engines do."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(_SECONDS)
            with socket.create_connection(server.getsockname(), timeout=_SECONDS) as client:
                accepted, _ = server.accept()
                with accepted:
                    accepted.settimeout(_SECONDS)
                    client.sendall(b"!")
                    heard = accepted.recv(1)
        left, right = socket.socketpair()
        left.close()
        right.close()
    except OSError as error:
        remedy = "A sandbox or a firewall forbids it; Unmask needs TCP on 127.0.0.1, and Unix sockets."
        return [Finding("sockets", "fail", f"127.0.0.1 cannot be used: {error}.", remedy)]
    assert heard == b"!"
    return [Finding("sockets", "ok", "127.0.0.1 can be used")]

"""The engine process ends with its parent, whatever it is doing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine.options import EngineOptions

OPTIONS = EngineOptions(model=EMBEDDED_MODEL, device="cpu", threads=1, kv_tokens=20_000)

LONG_STEP = """
import sys, time
from unmask.engine import worker
class Loop:
    sessions = None
    def __init__(self, options, progress, place):
        self.models = {}
    def send(self, command):
        pass
    def run(self, publish):
        time.sleep(60)
worker.EngineLoop = Loop
sys.exit(worker.main())
"""


def test_in_a_long_step():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", LONG_STEP, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=os.environ | OPTIONS.as_environment(),
        )
        theirs.close()
        assert ours.recv(4), "it is ready"
    try:
        assert process.wait(5) == 1
    finally:
        process.kill()
        process.wait()


HANGING_WORKER = """
import sys, time
from unmask.engine import worker
def hang(options, progress, place):
    print("loading", flush=True)
    time.sleep(60)
worker.EngineLoop = hang
sys.exit(worker.main())
"""


def test_while_it_loads():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING_WORKER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            env=os.environ | OPTIONS.as_environment(),
        )
    # Both ends are closed here: it is as if the parent had died.
    try:
        assert process.wait(30) == 1
        assert process.stdout.read() in (b"loading\n", b"")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

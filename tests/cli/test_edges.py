"""Closed and full streams, input that is no text, early interrupts: a short message or silence, never a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.serving.processes import UNMASK, environment
from unmask.cli.main import main


def shell(line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which ``unmask`` is the command."""
    line = line.replace("unmask", UNMASK)
    done = subprocess.run(
        ["bash", "-c", line],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment() | variables,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("closed", [pytest.param("<&-", marks=pytest.mark.slow), "2>&-", "<&- 2>&-"])
def test_streams_that_are_not_needed_may_be_closed(closed):
    done = shell(f"unmask run 'What is 7 + 8?' --threads 1 {closed}")
    assert done.returncode == 0
    assert done.stdout.startswith("7 + 8 = ")


def test_a_closed_input_asks_nothing():
    done = shell("unmask run <&-")
    assert done.returncode != 0
    assert "nothing to ask" in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("unmask run hi --threads 1 >&-", "error: Bad file descriptor."),
        ("unmask run hi --threads 1 > /dev/full", "error: No space left on device."),
        pytest.param(
            "unmask run hi --threads 1 --json > /dev/full",
            "error: No space left on device.",
            marks=pytest.mark.slow,
        ),
        ("unmask --version > /dev/full", "error: No space left on device."),
        ("unmask --help > /dev/full", "error: No space left on device."),
    ],
)
def test_an_answer_that_cannot_be_written_is_an_error(line, words):
    done = shell(line)
    assert done.returncode == 1
    assert done.stderr.strip() == words


def test_a_server_needs_no_streams():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/ready"
    line = f"exec {UNMASK} serve --port {port} --threads 1 --device cpu <&- >&- 2>&-"
    process = subprocess.Popen(["bash", "-c", line], env=environment())
    try:
        for _ in range(300):  # who connects while it loads waits for it, but first it has to listen
            try:
                with urllib.request.urlopen(url) as response:
                    assert response.status == 200
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "line", [r"unmask run $'\xff'", r"unmask run $'/\xff' hi", r"printf '\xff' | unmask run", "unmask run hi"]
)
def test_what_is_not_utf8_is_refused(line):
    variables = {"UNMASK_ADAPTER": os.fsdecode(b"\xff")} if line == "unmask run hi" else {}
    done = shell(line, **variables)
    assert done.returncode != 0
    assert "is not UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) <= 6


# It says when the first thing is imported for which the entry point answers.
TELLING = """
import sys
from unmask.cli.main import main
class Telling:
    def find_spec(self, name, path, target=None):
        if name == "unmask.cli.streams":
            print(flush=True)
sys.meta_path.insert(0, Telling())
sys.exit(main())
"""


@pytest.mark.parametrize("verb", [["run", "hi"], ["serve", "--port", "0"]])
def test_an_early_interrupt_is_silent(verb):
    for delay in (0, 0.1, 0.5):
        process = subprocess.Popen(
            [sys.executable, "-c", TELLING, *verb],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it
        )
        assert process.stdout.readline() == "\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=30)
        assert (process.returncode, words) == (130, "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "meta"], "'meta'"),
        (["--device", "cuda:x"], "'cuda:x'"),
        (["--threads", "100000"], "--threads"),
        (["--threads", "-1"], "--threads"),
        (["--max-running", "0"], "--max-running"),
        (["--max-rows", "0"], "--max-rows"),
        (["--kv-tokens", "-1"], "--kv-tokens"),
        (["--max-context", "-1"], "--max-context"),
        (["--api-key", ""], "--api-key"),
    ],
)
def test_options_out_of_range_are_refused_at_once(command, options, words):
    done = command("serve", *options)
    assert done.returncode == 2
    assert words in done.stderr


def test_an_empty_key_in_the_environment_is_refused_too(command):
    done = command("serve", UNMASK_API_KEY="")
    assert done.returncode == 2
    assert "--api-key" in done.stderr


def test_an_interrupt_while_a_class_is_made_is_an_interrupt(monkeypatch):
    """Python 3.11 wraps it into a RuntimeError there."""

    def interrupted():
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("unmask.cli.app.app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130

"""One process that gives logits: started, spoken to line by line, ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from unmask.errors import ModelLoadFailedError, ModelLoadTimeoutError
from unmask.models.logits_worker import bond
from unmask.models.logits_worker.protocol import vocabulary_of
from unmask.models.logits_worker.words import Words
from unmask.shown import cut, printable

_MOST_LINE = 4096
_MOST_BEFORE_READY = 1000  # lines: some libraries greet on standard output
_WORDS_SECONDS = 1.0  # for the last lines of a process that has ended
_END_SECONDS = 1.0


class ProcessGoneError(Exception):
    """The process has ended: how, and what it said last."""


class OutOfStepError(Exception):
    """What the process says is no line of the protocol."""


class WorkerProcess:
    """A process of ``command``, with the ``environment`` added to this one's less Unmask's own variables.

    The system may end it as soon as the thread that has made it ends (``bond.py``).
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.program = Path(command[0]).name
        self._begun = b""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("UNMASK_")}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", bond.__file__, str(os.getpid()), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=inherited | dict(environment),
            start_new_session=True,  # Ctrl-C reaches the server, which then ends its engines in order
        )
        assert self._process.stderr is not None
        self._words = Words(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()

    @property
    def pid(self) -> int:
        """Its id, which is also its group's."""
        return self._process.pid

    def await_ready(self, vocabulary: int, seconds: float) -> None:
        """Raises ``ModelLoadFailedError``, also if its model's vocabulary is another, or ``ModelLoadTimeoutError``."""
        deadline = time.monotonic() + seconds
        try:
            for _ in range(_MOST_BEFORE_READY):
                line = self.listen(deadline - time.monotonic())
                if (found := vocabulary_of(line)) is not None:
                    break
                if line.startswith("READY"):  # as the program that decodes by itself has it
                    raise OutOfStepError(f"it said '{printable(cut(line))}'")
            else:
                raise OutOfStepError("it wrote many lines, and never that it was ready")
        except TimeoutError:
            raise ModelLoadTimeoutError(
                f"{self.program} was not ready within {seconds:g} s.{self._said()}",
                hint="Give it more time (load_timeout), or a smaller model.",
            ) from None
        except (ProcessGoneError, OutOfStepError) as error:
            raise ModelLoadFailedError(
                f"{self.program} could not load the model: {error}.", hint="Its log may tell more: 'unmask logs'."
            ) from None
        if found != vocabulary:
            raise ModelLoadFailedError(
                f"{self.program} says that the model has {found} tokens; its file says {vocabulary}.",
                hint="Use a version of the program that was made for this model.",
            )

    def say(self, line: str) -> None:
        """Raises ``ProcessGoneError``."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(os.fsencode(line) + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ProcessGoneError(self._end()) from None

    def listen(self, seconds: float) -> str:
        """Its next line. Raises ``TimeoutError`` after ``seconds``, ``ProcessGoneError``, ``OutOfStepError``."""
        assert self._process.stdout is not None
        descriptor, deadline = self._process.stdout.fileno(), time.monotonic() + seconds
        poll = select.poll()
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
        while b"\n" not in self._begun:
            if len(self._begun) > _MOST_LINE:
                raise OutOfStepError(f"it wrote a line of more than {_MOST_LINE} bytes")
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimeoutError
            chunk = os.read(descriptor, _MOST_LINE)
            if not chunk:
                raise ProcessGoneError(self._end())
            self._begun += chunk
        line, _, self._begun = self._begun.partition(b"\n")
        return line.decode(errors="replace").strip()

    def _end(self) -> str:
        """How it ended, which it has, or is about to: it has closed its output."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._words.join(_WORDS_SECONDS)
        return f"it {_how(self._process.poll())}.{self._said()}".removesuffix(".")

    def _said(self) -> str:
        words = self._words.telling()
        return f" It last said: '{words}'." if words else ""

    def close(self) -> None:
        """Kill it, and what it has started. It has nothing to lose."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not written yet
                    stream.close()


def _how(status: int | None) -> str:
    if status is None:
        return "closed its output"
    if status >= 0:
        return f"ended (exit code {status})"
    name = next((known.name for known in signal.Signals if known == -status), str(-status))
    return f"was ended by a signal ({name})"

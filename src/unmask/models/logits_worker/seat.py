"""The place of one process that gives logits: another takes it when the first is gone."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unmask.errors import EngineCrashedError, EngineStalledError, EngineUnavailableError, UnmaskError, UpstreamError
from unmask.logits_workers import LOGIT_BYTES
from unmask.models.logits_worker.exchange import Exchange
from unmask.models.logits_worker.process import OutOfStepError, ProcessGoneError, WorkerProcess
from unmask.models.logits_worker.protocol import Question, answered, refused
from unmask.models.logits_worker.trail import Trail
from unmask.shown import cut, printable

Logits = NDArray[np.float32]

_LOG = "Its log may tell more: 'unmask logs'."


class Seat:
    """Answers questions, one after the other, by a process that ``start`` gives and that answers within ``seconds``.

    ``held``: the trail whose last logits the process remembers.
    """

    def __init__(self, start: Callable[[], WorkerProcess], exchange: Exchange, vocabulary: int, seconds: float) -> None:
        self._start = start
        self._exchange = exchange
        self._vocabulary = vocabulary
        self._seconds = seconds
        self._process: WorkerProcess | None = None
        self._held: weakref.ref[Trail] | None = None
        self._retired = False

    @property
    def held(self) -> Trail | None:
        """None if it remembers nothing that anybody might build on."""
        return None if self._held is None else self._held()

    def open(self) -> WorkerProcess:
        """The process, started if there is none. Raises what ``start`` raises."""
        if self._process is None:
            if self._retired:
                raise EngineUnavailableError("The engine was stopped.")
            self._process = self._start()
        return self._process

    def answer(self, question: Question, trail: Trail | None) -> Logits | UnmaskError:
        """The logits [C, V], or why there are none. What was lost with a process that died, the next one is asked
        again; that is tried once.
        """
        try:
            try:
                return self._follow(question, trail)
            except ProcessGoneError:
                self.close()
                return self._follow(question, trail)
        except ProcessGoneError as error:
            self.close()
            return EngineCrashedError(
                f"The program that gives this model's logits died twice over a canvas: {error}.", hint=_LOG
            )
        except UnmaskError as error:
            return error

    def _follow(self, question: Question, trail: Trail | None) -> Logits:
        """Ask, with the process brought to where it remembers the question before."""
        if trail is None:
            return self._ask(question)
        lost = question.conditioned and self.held is not trail
        self._held = None
        for former in trail.questions if lost else ():
            self._ask(former)
        logits = self._ask(question)
        self._held = weakref.ref(trail)
        return logits

    def _ask(self, question: Question) -> Logits:
        process, path = self.open(), self._exchange.path()
        answer = Path(f"{path}.resp")
        try:
            self._write(path, question)
            process.say(str(path))
            line = process.listen(self._seconds)
            if (reason := refused(line)) is not None:
                raise self._no_logits(process, f"answered: {printable(cut(reason))}")
            if not answered(line, question):
                raise OutOfStepError(f"it said '{printable(cut(line))}'")
            return self._read(process, answer, question.canvas)
        except TimeoutError:
            self.close()
            raise EngineStalledError(
                f"{process.program} gave no logits within {self._seconds:g} s, and was ended.",
                hint="Give it more time (stall_timeout), or fewer tokens.",
            ) from None
        except OutOfStepError as error:
            self.close()
            raise UpstreamError(f"{process.program} does not keep to its protocol: {error}.", hint=_LOG) from None
        finally:
            for file in (path, answer):
                with suppress(OSError):
                    file.unlink()

    def _write(self, path: Path, question: Question) -> None:
        try:
            path.write_bytes(question.as_bytes())
        except OSError as error:
            raise self._full(error.strerror or str(error)) from None

    def _read(self, process: WorkerProcess, answer: Path, rows: int) -> Logits:
        """The file is mapped, and goes when nobody needs the logits any more."""
        wanted = rows * self._vocabulary * LOGIT_BYTES
        try:
            found = answer.stat().st_size
            if found == wanted:
                return np.memmap(answer, dtype=np.float32, mode="r", shape=(rows, self._vocabulary))
        except OSError as error:
            raise self._no_logits(process, f"left no readable file ({error.strerror})") from None
        if found < wanted and self._exchange.free_bytes < wanted - found:
            raise self._full(f"{wanted / 2**20:.1f} MiB of logits were to come")
        self.close()  # whatever it gave, it was not asked for
        raise self._no_logits(process, f"gave {found} bytes of logits instead of {wanted}")

    def _no_logits(self, process: WorkerProcess, why: str) -> UpstreamError:
        return UpstreamError(f"{process.program}, which gives this model's logits, {why}.", hint=_LOG)

    def _full(self, why: str) -> EngineCrashedError:
        return EngineCrashedError(
            f"The folder {self._exchange.folder}, through which logits come, does not take them: {why}.",
            hint="Free memory there, or make it larger.",
        )

    def close(self) -> None:
        """End the process; the next question has another one started."""
        self._held = None
        if self._process is not None:
            process, self._process = self._process, None
            process.close()

    def retire(self) -> None:
        """End the process for good."""
        self._retired = True
        self.close()

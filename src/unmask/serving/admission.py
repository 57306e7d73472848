"""The requests of one HTTP request, from their places in the queue to their answers, whatever engine they run on."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from starlette.requests import ClientDisconnect

from unmask.answers.answer import Answer, AnswerDelta
from unmask.answers.cells import Cells
from unmask.errors import QueueTimeoutError
from unmask.events import RequestStats
from unmask.metrics import Metrics
from unmask.serving.ledger import current_ledger
from unmask.serving.places import Places
from unmask.serving.trace import current_trace


class Admission(abc.ABC):
    """Requests that were checked and may run: ``with admission.running(): ...``, in there ``next`` or ``answers``."""

    @property
    @abc.abstractmethod
    def cells(self) -> Cells:
        """What writes the tokens of the answers."""

    @property
    @abc.abstractmethod
    def prompt_tokens(self) -> int:
        """Tokens of the first prompt; 0 as long as the engine has not told."""

    @property
    @abc.abstractmethod
    def finished(self) -> bool:
        """Whether every request has its answer."""

    @abc.abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Take places in the queue and run; on leaving, what still runs is cancelled and the places are free again.

        Raises ``QueueFullError``, ``EngineUnavailableError`` or ``ShuttingDownError``.
        """

    async def refused(self) -> bool:
        """Whether the engine refuses a request at once: ``next`` then raises why. Waits no longer than it is worth."""
        return False

    @abc.abstractmethod
    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta, waited for, and its request's number. May be cancelled and called again."""

    async def answers(self) -> list[Answer]:
        """Every request's answer, in order, once all are finished."""
        done: dict[int, Answer] = {}
        while not self.finished:
            number, delta = await self.next()
            current_trace().heard(delta)
            if delta.answer is not None:
                done[number] = delta.answer
        return [answer for _, answer in sorted(done.items())]


class CountedAdmission(Admission):
    """Requests that an engine answers. Every end is counted: finished, failed, or left by the client.

    ``prompt_tokens`` are those of each request.
    """

    def __init__(self, places: Places, metrics: Metrics, prompt_tokens: Sequence[int], cells: Cells) -> None:
        self._cells = cells
        self._places = places
        self._metrics = metrics
        self._prompt_tokens = prompt_tokens
        self._unfinished = {number: RequestStats() for number in range(len(prompt_tokens))}

    @property
    def cells(self) -> Cells:
        """What writes the tokens of the answers."""
        return self._cells

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the first prompt; 0 as long as the engine has not told."""
        return self._prompt(0)

    def _prompt(self, number: int) -> int:
        """Tokens of a request's prompt."""
        return self._prompt_tokens[number]

    @property
    def finished(self) -> bool:
        """Whether every request has its answer."""
        return not self._unfinished

    @abc.abstractmethod
    def _run(self) -> AbstractContextManager[object]:
        """Let the engine begin; on leaving it drops what it has not finished."""

    @abc.abstractmethod
    async def _next(self) -> tuple[int, AnswerDelta]:
        """The engine's next delta, waited for, and its request's number. May be cancelled and called again."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take places in the queue and run; on leaving, what still runs is cancelled and the places are free again.

        Raises ``QueueFullError``, ``EngineUnavailableError`` or ``ShuttingDownError``.
        """
        metrics, ledger = self._metrics, current_ledger()
        with self._places.held(len(self._prompt_tokens)):
            try:
                with self._run():
                    yield
            except ClientDisconnect:
                raise
            except QueueTimeoutError as error:
                error.retry_after = self._places.retry_after()
                while self._unfinished:
                    self._unfinished.popitem()
                    metrics.expired()
                    ledger.ended("expired")
                raise
            except Exception:  # one request's error, or a bug of ours, ends the whole HTTP request
                while self._unfinished:
                    number, stats = self._unfinished.popitem()
                    metrics.failed()
                    ledger.ended("error", self._prompt(number) if stats.committed else 0, stats.committed)
                raise
            finally:
                for number, stats in self._unfinished.items():
                    metrics.cancelled(stats)
                    ledger.ended("cancelled", self._prompt(number), stats.committed)

    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta, waited for, and its request's number. May be cancelled and called again."""
        number, delta = await self._next()
        self._unfinished[number] = delta.stats
        if delta.frame is not None:
            self._metrics.frame()
        if delta.answer is not None:
            del self._unfinished[number]
            ended = delta.answer.completion
            self._metrics.finished(ended.finish_reason, delta.stats, ended.prompt_tokens, ended.completion_tokens)
            current_ledger().ended(ended.finish_reason, ended.prompt_tokens, ended.completion_tokens)
            self._places.finished()
            waited = replace(ended, waited=current_trace().model_seconds)
            return number, replace(delta, answer=replace(delta.answer, completion=waited))
        return number, delta

"""The requests of one HTTP request, from their places in the queue to their answers, whatever engine they run on."""

from __future__ import annotations

import abc
from contextlib import AbstractContextManager

from unmask.answers.answer import Answer, AnswerDelta


class Admission(abc.ABC):
    """Requests that were checked and may run: ``with admission.running(): ...``, in there ``next`` or ``answers``."""

    @property
    @abc.abstractmethod
    def prompt_tokens(self) -> int:
        """Tokens of the first prompt; 0 as long as the engine has not told."""

    @abc.abstractmethod
    def running(self) -> AbstractContextManager[None]:
        """Take places in the queue and run; on leaving, what still runs is cancelled and the places are free again.

        Raises ``QueueFullError``, ``EngineUnavailableError`` or ``ShuttingDownError``.
        """

    @property
    @abc.abstractmethod
    def finished(self) -> bool:
        """Whether every request has its answer."""

    @abc.abstractmethod
    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta, waited for, and its request's number. May be cancelled and called again."""

    async def answers(self) -> list[Answer]:
        """Every request's answer, in order, once all are finished."""
        done: dict[int, Answer] = {}
        while not self.finished:
            number, delta = await self.next()
            if delta.answer is not None:
                done[number] = delta.answer
        return [answer for _, answer in sorted(done.items())]

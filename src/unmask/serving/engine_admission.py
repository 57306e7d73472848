"""Requests of one HTTP request on our own engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import ClientDisconnect

from unmask.answers.answer import AnswerAssembler, AnswerDelta
from unmask.answers.reading import VERBATIM, Reading
from unmask.engine.completion import TextRequest
from unmask.engine.text import TextStream, stream_text
from unmask.errors import QueueTimeoutError
from unmask.events import RequestStats
from unmask.serving.admission import Admission
from unmask.serving.diffusion_model import DiffusionModel
from unmask.serving.ledger import current_ledger


class EngineAdmission(Admission):
    """Every end is counted: finished, failed, or left by the client."""

    def __init__(self, model: DiffusionModel, requests: list[TextRequest], reading: Reading = VERBATIM) -> None:
        self._model = model
        self._requests = requests
        self._assemblers = [AnswerAssembler(reading) for _ in requests]
        self._unfinished = {number: RequestStats() for number in range(len(requests))}
        self._texts: TextStream

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the first prompt."""
        return len(self._requests[0].prompt_ids)

    @contextmanager
    def running(self) -> Iterator[None]:
        """As ``Admission`` says. The requests share the engine's steps with all others."""
        model = self._model
        ledger = current_ledger()
        with model.places.held(len(self._requests)):
            try:
                with stream_text(model.engine, model.tokenizer, self._requests) as self._texts:
                    yield
            except ClientDisconnect:
                raise
            except QueueTimeoutError as error:
                error.retry_after = model.places.retry_after()
                while self._unfinished:
                    self._unfinished.popitem()
                    model.metrics.expired()
                    ledger.ended("expired")
                raise
            except Exception:  # one request's error, or a bug of ours, ends the whole HTTP request
                while self._unfinished:
                    self._unfinished.popitem()
                    model.metrics.failed()
                    ledger.ended("error")
                raise
            finally:
                for number, stats in self._unfinished.items():
                    model.metrics.cancelled(stats)
                    ledger.ended("cancelled", len(self._requests[number].prompt_ids), stats.committed)

    @property
    def finished(self) -> bool:
        """Whether every request has its answer."""
        return not self._unfinished

    async def next(self) -> tuple[int, AnswerDelta]:
        """The next delta, waited for, and its request's number. May be cancelled and called again."""
        number, text = await self._texts.next()
        delta = self._assemblers[number].feed(text)
        self._unfinished[number] = delta.stats
        metrics = self._model.metrics
        if delta.frame is not None:
            metrics.frame()
        completion = text.completion
        if completion is not None:
            del self._unfinished[number]
            metrics.finished(completion.finish_reason, delta.stats, completion.completion_tokens)
            metrics.deadline(completion.deadline_met)
            current_ledger().ended(completion.finish_reason, completion.prompt_tokens, completion.completion_tokens)
            self._model.places.finished()
        return number, delta

"""Requests of one HTTP request on our own engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from unmask.answers.answer import AnswerAssembler, AnswerDelta
from unmask.answers.reading import VERBATIM, Reading
from unmask.engine.completion import TextRequest
from unmask.engine.text import TextStream, stream_text
from unmask.serving.admission import CountedAdmission
from unmask.serving.diffusion_model import DiffusionModel


class EngineAdmission(CountedAdmission):
    """They share the engine's steps with all others. ``reading``: how their answers are read."""

    def __init__(self, model: DiffusionModel, requests: list[TextRequest], reading: Reading = VERBATIM) -> None:
        prompts = [len(request.prompt_ids) for request in requests]
        super().__init__(model.places, model.metrics, prompts, model.cells)
        self._model = model
        self._requests = requests
        self._assemblers = [AnswerAssembler(reading) for _ in requests]
        self._texts: TextStream

    @contextmanager
    def _run(self) -> Iterator[None]:
        with stream_text(self._model.engine, self._model.tokenizer, self._requests) as self._texts:
            yield

    async def _next(self) -> tuple[int, AnswerDelta]:
        number, text = await self._texts.next()
        if text.completion is not None:
            self._metrics.deadline(text.completion.deadline_met)
        return number, self._assemblers[number].feed(text)

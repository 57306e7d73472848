"""Requests that were let in: their places in the queue, their text as it comes, their outcome."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.client import EngineClient
from unmask.engine.text import TextDelta, stream_text
from unmask.errors import UnmaskError
from unmask.events import FinishReason, RequestStats
from unmask.metrics import Metrics
from unmask.params import DecodingParams
from unmask.serving.connection import merge
from unmask.serving.extension import GenerationReport


@dataclass(frozen=True, slots=True)
class Generation:
    """One prompt on its way through the engine. ``applied`` is fixed; a ``stop`` string ends the text."""

    prompt_ids: list[int]
    applied: DecodingParams
    stop: tuple[str, ...]

    def report(self, stats: RequestStats, completion_tokens: int) -> GenerationReport:
        """The response extension of this request, given its last numbers."""
        return GenerationReport.of(stats, completion_tokens, self.applied)

    async def deltas(
        self, engine: EngineClient, tokenizer: Tokenizer, metrics: Metrics
    ) -> AsyncGenerator[TextDelta, None]:
        """The text as it becomes certain. Leaving early cancels the request; every end is counted."""
        stats, ended = RequestStats(), False
        try:
            texts = stream_text(engine, tokenizer, self.prompt_ids, self.applied, self.stop)
            async with aclosing(texts) as deltas:
                async for delta in deltas:
                    stats = delta.stats
                    if delta.finish is not None:
                        ended = True
                        metrics.finished(delta.finish, delta.stats, delta.completion_tokens)
                    yield delta
        except UnmaskError:
            ended = True
            metrics.failed()
            raise
        finally:
            if not ended:
                metrics.cancelled(stats)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one prompt came to."""

    text: str
    finish: FinishReason
    completion_tokens: int
    report: GenerationReport


class Admission:
    """The generations of one HTTP request. A context that holds their places in the queue until left."""

    def __init__(
        self,
        generations: list[Generation],
        start: Callable[[Generation], AsyncGenerator[TextDelta, None]],
        release: Callable[[int], None],
    ) -> None:
        self.generations = generations
        self._start = start
        self._release = release

    def __enter__(self) -> Admission:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release(len(self.generations))

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(len(generation.prompt_ids) for generation in self.generations)

    def deltas(self) -> AsyncGenerator[tuple[int, TextDelta], None]:
        """The text of all generations as it comes, each delta with the number of its generation."""
        return merge([self._start(generation) for generation in self.generations])

    async def outcomes(self) -> list[Outcome]:
        """Every generation's outcome, in order, once all are done."""
        texts = [""] * len(self.generations)
        ends: dict[int, TextDelta] = {}
        async with aclosing(self.deltas()) as deltas:
            async for number, delta in deltas:
                texts[number] += delta.text
                ends[number] = delta
        return [_outcome(generation, texts[number], ends[number]) for number, generation in enumerate(self.generations)]


def _outcome(generation: Generation, text: str, end: TextDelta) -> Outcome:
    assert end.finish is not None, "a generation ended without a finish reason"
    report = generation.report(end.stats, end.completion_tokens)
    return Outcome(text, end.finish, end.completion_tokens, report)

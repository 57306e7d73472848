"""The Python API: ``LLM`` for scripts, ``AsyncLLM`` for asyncio programs. Both run the engine in this process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from unmask.checkpoints.prompts import PromptEncoder
from unmask.checkpoints.weights import Progress
from unmask.engine import wire
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.engine.text import TextAssembler, TextDelta, stream_text
from unmask.engine.thread import ThreadEngine
from unmask.errors import UnmaskError
from unmask.events import FinishReason, RequestStats
from unmask.params import DecodingParams, GenerationParams, resolve

Prompt = str | list[int] | list[dict[str, str]]


@dataclass(slots=True)
class Completion:
    """A finished answer. ``completion_tokens`` counts the closing end token; ``applied`` are the parameters used."""

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    stats: RequestStats
    applied: DecodingParams

    @property
    def tokens_per_forward(self) -> float:
        """Completion tokens per forward pass."""
        return self.completion_tokens / max(self.stats.forwards, 1)


class LLM:
    """A diffusion language model in this process.

    ``model`` is a directory or ``"unmask-tiny"``, the embedded model; ``options`` are the fields of
    ``EngineOptions``. Prompts are token ids, chat messages, or text: a string is a user's message where the model
    has a chat template (``raw=True`` takes it as it is).
    """

    def __init__(self, model: str = "unmask-tiny", *, progress: Progress = lambda share: None, **options: Any) -> None:
        self._loop = EngineLoop(EngineOptions(model=model, **options), progress)
        self.model = self._loop.model
        self.prompts = PromptEncoder(model, self.model.mask_id)

    def generate(
        self, prompts: Prompt | Sequence[Prompt], params: GenerationParams | None = None, *, raw: bool = False
    ) -> list[Completion]:
        """Answer every prompt, all in one batch; the results are in the order of the prompts.

        Raises the catalogue's errors for a prompt or parameter that cannot be honoured, before anything runs.
        """
        params = params or GenerationParams()
        jobs = [_Job(self, prompt, params, raw) for prompt in _as_list(prompts)]
        for job in jobs:
            self._loop.send(wire.Submit(job.request_id, job.prompt_ids, job.applied))
        waiting = {job.request_id: job for job in jobs}
        while waiting:
            for event in self._loop.step().events:
                job = waiting[event.request_id]
                if event.error is not None:
                    self._cancel(waiting)
                    raise UnmaskError.from_code(*event.error)
                if job.take(job.assembler.feed(event)):
                    del waiting[event.request_id]
                    if event.finish is None:  # a stop string ended it; the engine does not know yet
                        self._loop.send(wire.Cancel(event.request_id))
        return [job.completion() for job in jobs]

    def _cancel(self, waiting: dict[str, _Job]) -> None:
        for request_id in waiting:
            self._loop.send(wire.Cancel(request_id))
        self._loop.step()


class _Job:
    """One prompt on its way to a completion."""

    def __init__(self, owner: LLM | AsyncLLM, prompt: Prompt, params: GenerationParams, raw: bool) -> None:
        self.request_id = uuid.uuid4().hex
        self.prompt_ids = owner.prompts.encode(prompt, raw=raw)
        self.applied = resolve(params, owner.model, len(self.prompt_ids))
        self.assembler = TextAssembler(owner.prompts.tokenizer, params.stop)
        self._deltas: list[TextDelta] = []

    def take(self, delta: TextDelta) -> bool:
        """Add a delta; True if it was the last."""
        self._deltas.append(delta)
        return delta.finish is not None

    def completion(self) -> Completion:
        """The deltas put together."""
        last = self._deltas[-1]
        assert last.finish is not None
        return Completion(
            text="".join(delta.text for delta in self._deltas),
            token_ids=[token_id for delta in self._deltas for token_id in delta.token_ids],
            finish_reason=last.finish,
            prompt_tokens=len(self.prompt_ids),
            completion_tokens=last.completion_tokens,
            stats=last.stats,
            applied=self.applied,
        )


class AsyncLLM:
    """The async twin: create it with ``await AsyncLLM.load(...)``, leave it with ``close`` or ``async with``."""

    def __init__(self, engine: ThreadEngine, prompts: PromptEncoder) -> None:
        self._engine = engine
        self.model = engine.model
        self.prompts = prompts

    @classmethod
    async def load(
        cls, model: str = "unmask-tiny", *, progress: Progress = lambda share: None, **options: Any
    ) -> AsyncLLM:
        """Load ``model`` without blocking the event loop."""
        loop = await asyncio.to_thread(EngineLoop, EngineOptions(model=model, **options), progress)
        return cls(ThreadEngine(loop), PromptEncoder(model, loop.model.mask_id))

    async def generate(
        self, prompt: Prompt, params: GenerationParams | None = None, *, raw: bool = False
    ) -> Completion:
        """Answer one prompt; run several concurrently to share forwards."""
        params = params or GenerationParams()
        job = _Job(self, prompt, params, raw)
        async for delta in stream_text(self._engine, self.prompts.tokenizer, job.prompt_ids, job.applied, params.stop):
            job.take(delta)
        return job.completion()

    async def stream(
        self, prompt: Prompt, params: GenerationParams | None = None, *, raw: bool = False
    ) -> AsyncGenerator[TextDelta, None]:
        """The answer as it is decided. Leaving the iteration early cancels the request."""
        params = params or GenerationParams()
        job = _Job(self, prompt, params, raw)
        async for delta in stream_text(self._engine, self.prompts.tokenizer, job.prompt_ids, job.applied, params.stop):
            yield delta

    async def close(self) -> None:
        """Stop the engine."""
        await self._engine.close()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """A single prompt (text, ids, or messages) as a list of one."""
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int | dict)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]

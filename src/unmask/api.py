"""The Python API: ``LLM`` for scripts, ``AsyncLLM`` for asyncio programs. Both run the engine in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from unmask.checkpoints.prompts import PromptEncoder
from unmask.checkpoints.weights import Progress
from unmask.constraints.compiler import ConstraintCompiler
from unmask.engine import wire
from unmask.engine.completion import Completion, TextRequest
from unmask.engine.loop import EngineLoop
from unmask.engine.options import EngineOptions
from unmask.engine.text import TextAssembler, TextDelta, TextStream, stream_text
from unmask.engine.thread import ThreadEngine
from unmask.errors import InvalidValueError, UnmaskError
from unmask.params import Constraint, GenerationParams, ModelInfo
from unmask.resolve import resolve
from unmask.shown import shown
from unmask.terms import resolve_terms

Prompt = str | list[int] | list[dict[str, str]]


class LLM:
    """A diffusion language model in this process. It belongs to one thread at a time.

    ``model`` is a directory or ``"unmask-tiny"``, the embedded model; ``options`` are the fields of
    ``EngineOptions``. Prompts are token ids, chat messages, or text: a string is a user's message where the model
    has a chat template (``raw=True`` takes it as it is).
    """

    def __init__(self, model: str = "unmask-tiny", *, progress: Progress = lambda share: None, **options: Any) -> None:
        self._loop = EngineLoop(EngineOptions(model=model, **options), progress)
        self.model = self._loop.model
        self.models = self._loop.models
        self.prompts = PromptEncoder(model, self.model)
        self._constraints = ConstraintCompiler(self.prompts.tokenizer, self.model)

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: GenerationParams | None = None,
        *,
        raw: bool = False,
        adapter: str = "",
    ) -> list[Completion]:
        """Answer every prompt, all in one batch; the results are in the order of the prompts.

        ``adapter`` names one of the ``adapters`` that the engine was given.
        Always a list, of one for a single prompt (``AsyncLLM.generate`` takes one prompt and gives one answer).
        Raises the catalogue's errors for a prompt or parameter that cannot be honoured, before anything runs.
        Whatever ends the call, Ctrl-C too, nothing of it stays in the engine.
        """
        model = _variant(self.models, adapter)
        constraint = self._constraints.compile(_checked(params))
        requests = [_request(prompt, params, raw, self.prompts, model, constraint) for prompt in _as_list(prompts)]
        running = {str(n): TextAssembler(self.prompts.tokenizer, request) for n, request in enumerate(requests)}
        done: dict[str, Completion] = {}
        try:
            for request_id, request in zip(running, requests, strict=True):
                self._loop.send(wire.Submit(request_id, request.prompt_ids, request.params, request.terms))
            while len(done) < len(requests):
                for event in self._loop.step().events:
                    if event.error is not None:
                        raise UnmaskError.from_code(*event.error)
                    completion = running[event.request_id].feed(event).completion
                    if completion is not None:
                        done[event.request_id] = completion
                        if event.last:
                            del running[event.request_id]
                        else:  # a stop string ended it; the engine does not know yet
                            self._loop.send(wire.Cancel(event.request_id))
        finally:
            for request_id in running:
                self._loop.send(wire.Cancel(request_id))
            if not self._loop.idle:
                self._loop.step()
        return [done[str(number)] for number in range(len(requests))]


class AsyncLLM:
    """The async twin: create it with ``await AsyncLLM.load(...)``, leave it with ``close`` or ``async with``."""

    def __init__(self, engine: ThreadEngine, prompts: PromptEncoder) -> None:
        self._engine = engine
        self.model = engine.model
        self.models = engine.models
        self.prompts = prompts
        self._constraints = ConstraintCompiler(prompts.tokenizer, engine.model)

    @classmethod
    async def load(
        cls, model: str = "unmask-tiny", *, progress: Progress = lambda share: None, **options: Any
    ) -> AsyncLLM:
        """Load ``model`` without blocking the event loop."""
        loop = await asyncio.to_thread(EngineLoop, EngineOptions(model=model, **options), progress)
        prompts = PromptEncoder(model, loop.model)  # first: if it fails, no thread must be left running
        return cls(ThreadEngine(loop), prompts)

    async def generate(
        self, prompt: Prompt, params: GenerationParams | None = None, *, raw: bool = False, adapter: str = ""
    ) -> Completion:
        """Answer one prompt; run several concurrently to share forwards."""
        constraint = await self._constraints.compile_beside(_checked(params))
        with self._run(prompt, params, raw, adapter, constraint) as texts:
            while True:
                _, delta = await texts.next()
                if delta.completion is not None:
                    return delta.completion

    async def stream(
        self, prompt: Prompt, params: GenerationParams | None = None, *, raw: bool = False, adapter: str = ""
    ) -> AsyncGenerator[TextDelta, None]:
        """The answer as it is decided; the last delta has the ``completion``.

        Leaving the iteration early cancels the request (at once, if under ``contextlib.aclosing``).
        """
        constraint = await self._constraints.compile_beside(_checked(params))
        with self._run(prompt, params, raw, adapter, constraint) as texts:
            finished = False
            while not finished:
                _, delta = await texts.next()
                finished = delta.completion is not None
                yield delta

    def _run(
        self, prompt: Prompt, params: GenerationParams | None, raw: bool, adapter: str, constraint: Constraint | None
    ) -> AbstractContextManager[TextStream]:
        request = _request(prompt, params, raw, self.prompts, _variant(self.models, adapter), constraint)
        return stream_text(self._engine, self.prompts.tokenizer, [request])

    async def close(self) -> None:
        """Stop the engine."""
        await self._engine.close()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _request(
    prompt: Prompt,
    params: GenerationParams | None,
    raw: bool,
    prompts: PromptEncoder,
    model: ModelInfo,
    constraint: Constraint | None,
) -> TextRequest:
    params = _checked(params)
    ids = prompts.encode(prompt, raw=raw)
    decoding = resolve(params, model, len(ids), constraint)
    return TextRequest(ids, decoding, tuple(params.stop or ()), resolve_terms(params, model, decoding))


def _checked(params: GenerationParams | None) -> GenerationParams:
    params = GenerationParams() if params is None else params
    if not isinstance(params, GenerationParams):
        raise InvalidValueError(
            f"'params' is {shown(params)}.", hint="Give unmask.GenerationParams(max_tokens=64), say.", param="params"
        )
    return params


def _variant(models: dict[str, ModelInfo], adapter: str) -> ModelInfo:
    if not isinstance(adapter, str) or adapter not in models:
        names = ", ".join(f"'{name}'" for name in models if name) or "none"
        raise InvalidValueError(
            f"There is no adapter {shown(adapter)}.", hint=f"The engine was given: {names}.", param="adapter"
        )
    return models[adapter]


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """A single prompt (text, ids, or messages) as a list of one. Raises ``InvalidValueError`` for what is none."""
    if isinstance(prompts, bytes) or not isinstance(prompts, Sequence):
        raise InvalidValueError(
            f"'prompts' is {shown(prompts)}.",
            hint="Give a text, token ids, messages, or a list of these.",
            param="prompts",
        )
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int | dict)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]

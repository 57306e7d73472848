"""A conversation with one engine: history in, answers with their cost out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from unmask.checkpoints.prompts import PromptEncoder
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.client import Progress
from unmask.engine.completion import Completion, TextRequest
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.text import stream_text
from unmask.params import GenerationParams, ModelInfo
from unmask.resolve import resolve

ShowFrame = Callable[[list[int]], None]


class Conversation:
    """Questions and answers so far, and the engine that goes on with them. Close it when done."""

    def __init__(self, engine: ProcessEngine, prompts: PromptEncoder, params: GenerationParams) -> None:
        self._engine = engine
        self._prompts = prompts
        self._params = params
        self._messages: list[dict[str, str]] = []

    @classmethod
    async def open(cls, options: EngineOptions, params: GenerationParams, progress: Progress) -> Conversation:
        """Start an engine process with ``options`` and wait until it has loaded."""
        engine = await ProcessEngine.launch(options, progress)
        try:
            return cls(engine, PromptEncoder(options.model, engine.model), params)
        except BaseException:  # a tokenizer that cannot be used
            await engine.close()
            raise

    @property
    def model(self) -> ModelInfo:
        """The model that answers."""
        return self._engine.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._prompts.tokenizer

    async def ask(self, question: str, show: ShowFrame | None = None) -> Completion:
        """The answer to ``question``, which joins the history with it. ``show`` gets each canvas on the way.

        A model without a chat template continues the bare text, without history.
        """
        asked = [*self._messages, {"role": "user", "content": question}]
        prompt = self._prompts.encode(asked if self._prompts.template.exists else question)
        applied = resolve(replace(self._params, frames=show is not None), self.model, len(prompt))
        answer = await self._run(TextRequest(prompt, applied), show)
        self._messages = [*asked, {"role": "assistant", "content": answer.text}]
        return answer

    async def _run(self, request: TextRequest, show: ShowFrame | None) -> Completion:
        with stream_text(self._engine, self.tokenizer, [request]) as texts:
            while True:
                _, delta = await texts.next()
                if show is not None and delta.frame is not None:
                    show(delta.frame.tokens)
                if delta.completion is not None:
                    return delta.completion

    async def close(self) -> None:
        """Stop the engine process."""
        await self._engine.close()

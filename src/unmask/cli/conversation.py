"""A conversation with one engine: history in, answers with their cost out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

import msgspec

from unmask.checkpoints.prompts import PromptEncoder
from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.client import Progress
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.text import TextDelta, stream_text
from unmask.events import FinishReason
from unmask.params import DecodingParams, GenerationParams, ModelInfo, resolve
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.extension import GenerationReport

ShowFrame = Callable[[list[int]], None]


class Answer(msgspec.Struct, frozen=True):
    """What the model said, and what it cost; the words of the HTTP responses."""

    model: str
    text: str
    finish_reason: FinishReason
    usage: Usage
    unmask: GenerationReport


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
        return cls(engine, PromptEncoder(options.model, engine.model.mask_id), params)

    @property
    def model(self) -> ModelInfo:
        """The model that answers."""
        return self._engine.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self._prompts.tokenizer

    async def ask(self, question: str, show: ShowFrame | None = None) -> Answer:
        """The answer to ``question``, which joins the history with it. ``show`` gets each canvas on the way.

        A model without a chat template continues the bare text, without history.
        """
        asked = [*self._messages, {"role": "user", "content": question}]
        prompt = self._prompts.encode(asked if self._prompts.template.exists else question)
        applied = resolve(replace(self._params, frames=show is not None), self.model, len(prompt))
        answer = await self._run(prompt, applied, show)
        self._messages = [*asked, {"role": "assistant", "content": answer.text}]
        return answer

    async def _run(self, prompt: list[int], applied: DecodingParams, show: ShowFrame | None) -> Answer:
        text, last = "", None
        async with aclosing(stream_text(self._engine, self.tokenizer, prompt, applied, ())) as deltas:
            async for last in deltas:
                text += last.text
                if show is not None and last.frame is not None:
                    show(last.frame)
        assert last is not None
        assert last.finish is not None
        return _answer(self.model.name, len(prompt), text, last, applied)

    async def close(self) -> None:
        """Stop the engine process."""
        await self._engine.close()


def _answer(model: str, prompt_tokens: int, text: str, last: TextDelta, applied: DecodingParams) -> Answer:
    assert last.finish is not None
    return Answer(
        model=model,
        text=text,
        finish_reason=last.finish,
        usage=Usage.of(prompt_tokens, last.completion_tokens),
        unmask=GenerationReport.of(last.stats, last.completion_tokens, applied),
    )

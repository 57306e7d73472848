"""From text deltas to chunks: text, finish, usage; several prompts interleave. Pure: no clock, no I/O."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from unmask.engine.text import TextDelta
from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.stream import FrameEncoder
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.dialects.openai_completions.wire import ChunkChoice, CompletionChunk
from unmask.serving.extension import FrameExtension, GenerationReport
from unmask.serving.generation import Generation


class CompletionStream:
    """The chunks of one streamed response. A chunk has one choice; its index is the prompt's number."""

    def __init__(
        self, head: Head, generations: list[Generation], frames: list[FrameEncoder], *, include_usage: bool
    ) -> None:
        self._head = head
        self._generations = generations
        self._frames = frames
        self._include_usage = include_usage
        self._completion_tokens = [0] * len(generations)

    def start(self) -> list[CompletionChunk]:
        """Nothing: this dialect has no role to announce."""
        return []

    def step(self, number: int, delta: TextDelta) -> list[CompletionChunk]:
        """The text of ``delta`` if it has any, its canvas frame, and the finish with the request's report."""
        chunks = []
        self._completion_tokens[number] = delta.completion_tokens
        if delta.text:
            chunks.append(self._chunk(ChunkChoice(number, delta.text)))
        if delta.frame is not None:
            chunks.append(self._chunk(ChunkChoice(number), unmask=self._frames[number].encode(delta.frame)))
        if delta.finish is not None:
            report = self._generations[number].report(delta.stats, delta.completion_tokens)
            chunks.append(self._chunk(ChunkChoice(number, "", delta.finish), unmask=report))
        return chunks

    def end(self) -> list[CompletionChunk]:
        """The usage of all prompts, if it was asked for: last of all chunks, without a choice."""
        if not self._include_usage:
            return []
        prompt_tokens = sum(len(generation.prompt_ids) for generation in self._generations)
        return [self._chunk(usage=Usage.of(prompt_tokens, sum(self._completion_tokens)))]

    def _chunk(
        self,
        *choices: ChunkChoice,
        usage: Usage | None = None,
        unmask: GenerationReport | FrameExtension | UnsetType = UNSET,
    ) -> CompletionChunk:
        return CompletionChunk(
            id=self._head.id,
            created=self._head.created,
            model=self._head.model,
            choices=list(choices),
            usage=usage if self._include_usage else UNSET,
            unmask=unmask,
        )

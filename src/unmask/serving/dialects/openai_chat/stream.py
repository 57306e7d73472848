"""From text deltas to chunks: role, content, finish, usage. Pure: no clock, no I/O."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from unmask.engine.text import TextDelta
from unmask.events import FinishReason
from unmask.serving.dialects.openai_chat.wire import ChatChunk, ChunkChoice, Delta
from unmask.serving.dialects.openai_common.encode import Head
from unmask.serving.dialects.openai_common.stream import FrameEncoder
from unmask.serving.dialects.openai_common.wire import Usage
from unmask.serving.extension import FrameExtension, GenerationReport
from unmask.serving.generation import Generation


class ChatStream:
    """The chunks of one streamed answer, in the order that client libraries rely on."""

    def __init__(self, head: Head, generation: Generation, frames: FrameEncoder, *, include_usage: bool) -> None:
        self._head = head
        self._generation = generation
        self._frames = frames
        self._include_usage = include_usage
        self._completion_tokens = 0

    def start(self) -> list[ChatChunk]:
        """The role, once."""
        return [self._choice(Delta(role="assistant", content=""))]

    def step(self, number: int, delta: TextDelta) -> list[ChatChunk]:
        """The text of ``delta`` if it has any, its canvas frame, and the finish with the request's report."""
        chunks = []
        self._completion_tokens = delta.completion_tokens
        if delta.text:
            chunks.append(self._choice(Delta(content=delta.text)))
        if delta.frame is not None:
            chunks.append(self._choice(Delta(), unmask=self._frames.encode(delta.frame)))
        if delta.finish is not None:
            report = self._generation.report(delta.stats, delta.completion_tokens)
            chunks.append(self._choice(Delta(), delta.finish, report))
        return chunks

    def end(self) -> list[ChatChunk]:
        """The usage, if it was asked for: last of all chunks, without a choice."""
        if not self._include_usage:
            return []
        return [self._chunk([], Usage.of(len(self._generation.prompt_ids), self._completion_tokens))]

    def _choice(
        self,
        delta: Delta,
        finish: FinishReason | None = None,
        unmask: GenerationReport | FrameExtension | UnsetType = UNSET,
    ) -> ChatChunk:
        return self._chunk([ChunkChoice(0, delta, finish)], unmask=unmask)

    def _chunk(
        self,
        choices: list[ChunkChoice],
        usage: Usage | None = None,
        unmask: GenerationReport | FrameExtension | UnsetType = UNSET,
    ) -> ChatChunk:
        return ChatChunk(
            id=self._head.id,
            created=self._head.created,
            model=self._head.model,
            choices=choices,
            usage=usage if self._include_usage else UNSET,
            unmask=unmask,
        )

"""The chunks of a streamed text completion; several prompts interleave."""

from __future__ import annotations

from unmask.answers.parts import Content, Part
from unmask.events import WireFinish
from unmask.serving.dialects.openai_common.stream import ChunkStream, Logprobs
from unmask.serving.dialects.openai_completions.logprobs import encode_logprobs
from unmask.serving.dialects.openai_completions.wire import ChunkChoice


class CompletionStream(ChunkStream):
    """A chunk has one choice; its index is the answer's number. All of an answer is content."""

    kind = "text_completion"

    def _choice(
        self,
        number: int,
        part: Part | None = None,
        finish: WireFinish | None = None,
        logprobs: Logprobs | None = None,
    ) -> ChunkChoice:
        text = part.text if isinstance(part, Content) else ""
        return ChunkChoice(number, text, finish, encode_logprobs(logprobs, self._cells))

"""The chunks of a streamed chat answer."""

from __future__ import annotations

from msgspec import UNSET

from unmask.events import WireFinish
from unmask.serving.dialects.openai_chat.logprobs import encode_logprobs
from unmask.serving.dialects.openai_chat.wire import ChunkChoice, Delta
from unmask.serving.dialects.openai_common.stream import ChunkStream, Logprobs


class ChatStream(ChunkStream):
    """One answer: the role first, as client libraries rely on, then what all streams have."""

    kind = "chat.completion.chunk"

    def start(self) -> list[bytes]:
        """The role, once."""
        return [self._chunk(ChunkChoice(0, Delta(role="assistant", content="")))]

    def _choice(
        self, number: int, text: str = "", finish: WireFinish | None = None, logprobs: Logprobs | None = None
    ) -> ChunkChoice:
        return ChunkChoice(number, Delta(content=text or UNSET), finish, encode_logprobs(logprobs, self._cells))

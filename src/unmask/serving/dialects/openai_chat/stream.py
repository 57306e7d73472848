"""The chunks of a streamed chat answer."""

from __future__ import annotations

from unmask.answers.parts import Content, Part, Reasoning, ToolPiece
from unmask.events import WireFinish
from unmask.serving.dialects.openai_chat.encode import call_id
from unmask.serving.dialects.openai_chat.logprobs import encode_logprobs
from unmask.serving.dialects.openai_chat.wire import CalledFunction, CalledTool, ChunkChoice, Delta
from unmask.serving.dialects.openai_common.stream import ChunkStream, Logprobs


class ChatStream(ChunkStream):
    """Answers to a conversation: each one's role first, as client libraries rely on, then what all streams have."""

    kind = "chat.completion.chunk"

    def start(self) -> list[bytes]:
        """The role of each answer, once."""
        first = Delta(role="assistant", content="")
        return [self._chunk(ChunkChoice(number, first)) for number in range(self._copies)]

    def _choice(
        self,
        number: int,
        part: Part | None = None,
        finish: WireFinish | None = None,
        logprobs: Logprobs | None = None,
    ) -> ChunkChoice:
        return ChunkChoice(number, self._delta(number, part), finish, encode_logprobs(logprobs, self._cells))

    def _delta(self, number: int, part: Part | None) -> Delta:
        match part:
            case Content(text):
                return Delta(content=text)
            case Reasoning(text):
                return Delta(reasoning_content=text)
            case ToolPiece():
                return Delta(tool_calls=[self._call(number, part)])
        return Delta()

    def _call(self, number: int, piece: ToolPiece) -> CalledTool:
        if piece.name is None:
            return CalledTool(CalledFunction(piece.arguments), index=piece.index)
        own_id = call_id(self._head, number, piece.index)
        return CalledTool(CalledFunction(piece.arguments, piece.name), own_id, "function", piece.index)

"""The event sequence of a streamed answer: chunks, an error instead of the rest, or ``[DONE]``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec
from starlette.requests import Request

from unmask.engine.text import TextDelta
from unmask.serving import sse
from unmask.serving.dialects.openai_common.envelope import catalogued, envelope
from unmask.serving.extension import CanvasFrame, FrameExtension
from unmask.serving.generation import Admission
from unmask.serving.served_model import ServedModel


class ChunkStream(Protocol):
    """A dialect's state machine: text deltas in, chunks out. It does no I/O."""

    def start(self) -> Sequence[msgspec.Struct]:
        """Chunks before any text."""

    def step(self, number: int, delta: TextDelta) -> Sequence[msgspec.Struct]:
        """Chunks for ``delta`` of generation ``number``; a finished generation's last ones included."""

    def end(self) -> Sequence[msgspec.Struct]:
        """Chunks after all generations."""


async def events(admission: Admission, chunks: ChunkStream) -> AsyncGenerator[bytes, None]:
    """The bytes of a stream. An error ends it with an error event: never assistant text, never ``[DONE]``."""
    try:
        for chunk in chunks.start():
            yield sse.data(chunk)
        async with aclosing(admission.deltas()) as deltas:
            async for number, delta in deltas:
                for chunk in chunks.step(number, delta):
                    yield sse.data(chunk)
        for chunk in chunks.end():
            yield sse.data(chunk)
        yield sse.DONE
    except Exception as error:
        yield sse.data(envelope(catalogued(error)))


def stream_response(admission: Admission, chunks: ChunkStream, request: Request) -> sse.EventStream:
    """The HTTP response that sends ``events`` and gives the admission's places back when it is over."""
    return sse.EventStream(events(admission, chunks), admission, request.app.state.settings.keep_alive_seconds)


class FrameEncoder:
    """Turns the canvas ids of successive frames into numbered ``unmask.canvas`` objects."""

    def __init__(self, pieces: Callable[[list[int]], list[str]], mask_id: int, sent: Callable[[], None]) -> None:
        self._pieces, self._mask_id, self._sent = pieces, mask_id, sent
        self._seq = 0

    @classmethod
    def of(cls, model: ServedModel) -> FrameEncoder:
        """An encoder for one stream of ``model``."""
        return cls(model.tokenizer.pieces, model.tokenizer.mask_id, model.metrics.frame)

    def encode(self, frame: list[int]) -> FrameExtension:
        """The next frame."""
        pieces = self._pieces(frame)
        cells = [None if token == self._mask_id else piece for token, piece in zip(frame, pieces, strict=True)]
        self._seq += 1
        self._sent()
        return FrameExtension(CanvasFrame(self._seq, cells, cells.count(None)))

"""From canvas events to text that is safe to show: incremental decoding, stop strings, token counts."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.client import EngineClient
from unmask.events import CanvasEvent, FinishReason, RequestStats
from unmask.params import DecodingParams


@dataclass(slots=True)
class TextDelta:
    """Text that can no longer change, and the token ids it came from.

    ``completion_tokens`` counts all tokens so far, the closing end token included. ``finish`` is set on the last
    delta only. ``frame`` is the whole canvas as it stands (ids, masks included) if the request asked for frames.
    """

    text: str
    token_ids: list[int]
    completion_tokens: int
    stats: RequestStats
    finish: FinishReason | None
    frame: list[int] | None


class TextAssembler:
    """Feeds on one request's events and gives text deltas; the same text for any grouping of tokens in events.

    A stop string ends the text right before it, wherever token borders fall. Text that could still be the
    beginning of a stop string is held back. Tokens are counted up to the one that completed the stop string.
    """

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...]) -> None:
        self._decoder = tokenizer.incremental_decoder()
        self._stop = stop
        self._held = ""
        self._count = 0
        self.finished = False

    def feed(self, event: CanvasEvent) -> TextDelta:
        """The delta that ``event`` brings; its text may be empty."""
        text, used = "", 0
        finish = event.finish
        for token_id in event.token_ids:
            used += 1
            shown, stopped = self._advance(self._decoder.step(token_id))
            text += shown
            if stopped:
                finish = "stop"
                break
        else:
            if finish is not None:
                shown, stopped = self._advance(self._decoder.flush())
                text += shown if stopped else shown + self._held
                finish = "stop" if stopped else finish
                used_end = event.ended_by_token and not stopped
                self._count += used_end
        self._count += used
        self.finished = finish is not None
        return TextDelta(text, event.token_ids[:used], self._count, event.stats, finish, event.frame)

    def _advance(self, piece: str) -> tuple[str, bool]:
        """Add ``piece``; gives the text now safe to show and whether a stop string was met."""
        if not self._stop:
            return piece, False
        self._held += piece
        hits = [hit for stop in self._stop if (hit := self._held.find(stop)) >= 0]
        if hits:
            return self._held[: min(hits)], True
        keep = _overlap(self._held, self._stop)
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown, False


def _overlap(text: str, stops: tuple[str, ...]) -> int:
    """Length of the longest end of ``text`` that begins one of ``stops``."""
    longest = min(len(text), max(len(stop) for stop in stops) - 1)
    return next((n for n in range(longest, 0, -1) if any(stop.startswith(text[-n:]) for stop in stops)), 0)


async def stream_text(
    engine: EngineClient, tokenizer: Tokenizer, prompt_ids: list[int], params: DecodingParams, stop: tuple[str, ...]
) -> AsyncGenerator[TextDelta, None]:
    """Run one request on ``engine`` as text. The last delta has ``finish``; leaving early cancels the request."""
    assembler = TextAssembler(tokenizer, stop)
    async with aclosing(engine.generate(prompt_ids, params)) as events:
        async for event in events:
            yield assembler.feed(event)
            if assembler.finished:
                return

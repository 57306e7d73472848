"""From canvas events to text that is safe to show: incremental decoding, stop strings, token counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from unmask.checkpoints.tokenizer import Tokenizer
from unmask.engine.client import EngineClient, Mailbox
from unmask.engine.completion import Completion, TextRequest
from unmask.engine.shown_tokens import ShownTokens
from unmask.events import NO_TOKEN, CanvasEvent, Frame, RequestStats, TokenLogprob


@dataclass(slots=True)
class TextDelta:
    """Text that can no longer change, and the token ids it came from; ``stats`` is the cost so far.

    ``pieces``: the text that each of ``token_ids`` made certain, then, at the end, what was held back. ``frame`` is
    the event's. ``completion`` is set on the last delta only: all deltas put together. ``logprobs``, if the request
    asked for them, are those of the tokens whose text this delta completes.
    """

    pieces: list[str]
    token_ids: list[int]
    stats: RequestStats
    frame: Frame | None
    completion: Completion | None
    logprobs: list[TokenLogprob] | None = None

    @property
    def text(self) -> str:
        """All pieces together; often empty."""
        return "".join(self.pieces)


class TextAssembler:
    """Feeds on one request's events and gives text deltas; the same text for any grouping of tokens in events.

    A stop string ends the text right before it, wherever token borders fall. Text that could still be the
    beginning of a stop string is held back. Tokens are counted up to the one that completed the stop string.
    """

    def __init__(self, tokenizer: Tokenizer, request: TextRequest) -> None:
        self._decoder = tokenizer.incremental_decoder(request.shown)
        self._request = request
        self._held = ""
        self._texts: list[str] = []
        self._ids: list[int] = []
        self._shown = ShownTokens()
        self._logprobs: list[TokenLogprob] | None = None if request.params.logprobs is None else []

    def feed(self, event: CanvasEvent) -> TextDelta:
        """The delta that ``event`` brings; its text may be empty. None may follow the one with ``completion``."""
        pieces: list[str] = []
        stopped = ""
        for token_id in event.token_ids:
            piece = self._decoder.step(token_id)
            if event.logprobs is not None:
                self._shown.decoded(event.logprobs[len(pieces)], piece)
            shown, stopped = self._advance(piece)
            pieces.append(shown)
            if stopped:
                break
        ids = event.token_ids[: len(pieces)]
        if event.finish is not None and not stopped:
            shown, stopped = self._advance(self._decoder.flush())
            pieces.append(shown if stopped else shown + self._held)
        self._texts += pieces
        self._ids += ids
        logprobs = self._list_logprobs("".join(pieces), event, stopped)
        completion = self._completion(event, stopped)
        return TextDelta(pieces, ids, event.stats, event.frame, completion, logprobs)

    def _list_logprobs(self, text: str, event: CanvasEvent, stopped: str) -> list[TokenLogprob] | None:
        """Those of the tokens whose text ends with ``text``, also kept for the completion."""
        if self._logprobs is None:
            return None
        entries = self._shown.shown(text, cut=bool(stopped), last=event.finish is not None and not stopped)
        self._logprobs += entries
        return entries

    def _advance(self, piece: str) -> tuple[str, str]:
        """Add ``piece``; gives the text now safe to show and the stop string that was met, or ""."""
        stops = self._request.stop
        if not stops:
            return piece, ""
        self._held += piece
        hits = [(hit, stop) for stop in stops if (hit := self._held.find(stop)) >= 0]
        if hits:
            first, stop = min(hits)
            return self._held[:first], stop
        keep = _overlap(self._held, stops)
        shown, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return shown, ""

    def _completion(self, event: CanvasEvent, stopped: str) -> Completion | None:
        finish = "stop" if stopped else event.finish
        if finish is None:
            return None
        return Completion(
            text="".join(self._texts),
            token_ids=self._ids,
            finish_reason=finish,
            prompt_tokens=len(self._request.prompt_ids),
            completion_tokens=len(self._ids) + int(event.ended_by_token and not stopped),
            stats=event.stats,
            applied=msgspec.structs.replace(self._request.params, **event.stats.relaxed),
            terms=self._request.terms,
            logprobs=self._logprobs,
            stopped_by=stopped or None,
            closing=None if stopped else event.closing,
            lane=self._request.lane,
        )


def _overlap(text: str, stops: tuple[str, ...]) -> int:
    """Length of the longest end of ``text`` that begins one of ``stops``."""
    longest = min(len(text), max(len(stop) for stop in stops) - 1)
    return next((n for n in range(longest, 0, -1) if any(stop.startswith(text[-n:]) for stop in stops)), 0)


class TextStream:
    """The text of requests that run together; ``stream_text`` opens it."""

    def __init__(self, mailbox: Mailbox, assemblers: list[TextAssembler]) -> None:
        self._mailbox = mailbox
        self._assemblers = assemblers

    async def next(self) -> tuple[int, TextDelta]:
        """The next delta, waited for, and its request's number. Raises the error that ended a request.

        May be cancelled (by a timeout) and called again; not once all requests have their completion.
        """
        number, event = await self._mailbox.get()
        delta = self._assemblers[number].feed(event)
        if delta.completion is not None:
            self._mailbox.drop(number)  # a stop string ended it; the engine does not know yet
        return number, delta


@contextmanager
def stream_text(engine: EngineClient, tokenizer: Tokenizer, requests: Sequence[TextRequest]) -> Iterator[TextStream]:
    """Run ``requests`` together on ``engine``. Leaving the context cancels those that have not finished."""
    with engine.submit([(request.prompt_ids, request.params, request.terms) for request in requests]) as mailbox:
        yield TextStream(mailbox, [TextAssembler(tokenizer, request) for request in requests])


class CellDecoder:
    """The text of tokens one by one, of a canvas cell by cell. A token is decoded once: the same ones come over and
    over.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cells: dict[int | None, str | None] = dict.fromkeys((tokenizer.mask_id, NO_TOKEN))
        self._spelled: dict[int, tuple[str, list[int]]] = {}

    def decode(self, canvas: Sequence[int]) -> list[str | None]:
        """Each cell's own text; None for one that is still masked."""
        new = list(set(canvas) - self._cells.keys())
        self._cells.update(zip(new, self._tokenizer.pieces(new), strict=True))
        return [self._cells[token] for token in canvas]

    def prose(self, canvas: Sequence[int]) -> list[str | None]:
        """Each cell's part of the text: as ``decode`` has it, but nothing of special tokens."""
        return ["" if text in self._tokenizer.specials else text for text in self.decode(canvas)]

    def spell(self, token_id: int) -> tuple[str, list[int]]:
        """The text of a token by itself, and its bytes: those of a part of a character make no text of their own."""
        if token_id not in self._spelled:
            text, spelled = self._tokenizer.spelling(token_id)
            self._spelled[token_id] = text, list(spelled)
        return self._spelled[token_id]

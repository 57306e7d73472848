"""Log-probabilities of an answer's content, as lanes tell them."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence

from unmask.answers.parts import Content, Part
from unmask.engine.shown_tokens import ShownTokens
from unmask.events import TokenLogprob
from unmask.gateway.upstream.chunk import Entry, TextLogprobs
from unmask.gateway.upstream.spellings import Spellings

_Top = list[tuple[int, float]]


class ContentLogprobs:
    """Holds each entry back as long as its text is. ``count``: how many alternatives were asked for with each."""

    def __init__(self, count: int, spellings: Spellings) -> None:
        self._count = count
        self._spellings = spellings
        self._tokens = ShownTokens()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._run = 0
        self._in_run = False
        self.all: list[TokenLogprob] = []

    def read(self, told: TextLogprobs) -> None:
        """Take the entries of a chunk's content, before it is shown."""
        for text, spelled, logprob, top in self._chat(told.content or ()) if told.content else self._lists(told):
            entry = TokenLogprob(self._spellings.number(text, spelled), logprob, top[: self._count])
            self._tokens.decoded(entry, self._decoder.decode(spelled))

    def shown(self, parts: Sequence[Part], *, cut: bool, last: bool) -> tuple[list[TokenLogprob], list[int]]:
        """The entries whose text ``parts`` complete, and the run of content that each belongs to.

        ``cut``: a stop string has ended the answer; ``last``: so did the lane.
        """
        entries: list[TokenLogprob] = []
        runs: list[int] = []
        for part in [*parts, *([Content("")] if last or cut else [])]:
            if not isinstance(part, Content):
                self._run += self._in_run
                self._in_run = False
                continue
            found = self._tokens.shown(part.text, cut=cut, last=last)
            self._in_run = self._in_run or bool(part.text)
            entries += found
            runs += [self._run] * len(found)
        self.all += entries
        return entries, runs

    def _chat(self, content: Sequence[Entry]) -> Iterator[tuple[str, bytes, float, _Top]]:
        for entry in content:
            others = [
                (self._spellings.number(*other.spelling), other.logprob)
                for other in entry.top_logprobs or ()
                if other.logprob is not None
            ]
            yield *entry.spelling, _number(entry.logprob), others

    def _lists(self, told: TextLogprobs) -> Iterator[tuple[str, bytes, float, _Top]]:
        tops = told.top_logprobs or []
        for place, text in enumerate(told.tokens or ()):
            logprobs = told.token_logprobs or []
            logprob = logprobs[place] if place < len(logprobs) else None
            top = (tops[place] if place < len(tops) else None) or {}
            likely = [
                (self._spellings.number(other, other.encode()), value)
                for other, value in top.items()
                if value is not None
            ]
            yield text, text.encode(), _number(logprob), sorted(likely, key=lambda one: -one[1])


def _number(logprob: float | None) -> float:
    return float("nan") if logprob is None else logprob

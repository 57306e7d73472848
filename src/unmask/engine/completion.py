"""What is asked for as text, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.events import FinishReason, RequestStats, TokenLogprob
from unmask.params import DecodingParams
from unmask.terms import PLAIN, Terms


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A prompt to answer with text. ``params`` are resolved; a ``stop`` string ends the text right before it.

    ``shown``: texts of special tokens that are part of the answer's text; others have none.
    """

    prompt_ids: list[int]
    params: DecodingParams
    stop: tuple[str, ...] = ()
    terms: Terms = PLAIN
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer. ``completion_tokens`` counts the closing end token; ``applied`` are the parameters used.

    ``logprobs``: one for each token of the text, if the request asked for them; those of a stop string and what follows
    it are left out. ``closing``: that of the closing end token. ``stopped_by``: the stop string that ended the text, if
    one did. ``scoring``: what it cost to score the prompt. ``warnings``: what seems wrong with the answer, by those who
    watch it. ``replayed``: it was kept from an earlier request. ``waited``: seconds until its model was there, before
    all that ``stats`` tells.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    stats: RequestStats
    applied: DecodingParams
    terms: Terms = PLAIN
    logprobs: list[TokenLogprob] | None = None
    stopped_by: str | None = None
    closing: TokenLogprob | None = None
    scoring: RequestStats | None = None
    warnings: tuple[str, ...] = ()
    replayed: bool = False
    waited: float = 0.0

    @property
    def tokens_per_forward(self) -> float:
        """Completion tokens per forward pass."""
        return self.completion_tokens / max(self.stats.forwards, 1)

    @property
    def deadline_met(self) -> bool | None:
        """Whether the answer came in time; None if it had no deadline."""
        return None if self.terms.deadline is None else self.stats.total <= self.terms.deadline

    @property
    def discarded_tokens(self) -> int:
        """Tokens committed that are no part of the answer: those after its end, or after a stop string."""
        return self.stats.committed - self.completion_tokens

"""A finished answer, put together from its deltas."""

from __future__ import annotations

from dataclasses import dataclass, field

from unmask.engine.text import TextDelta
from unmask.events import FinishReason, RequestStats
from unmask.params import DecodingParams


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer. ``completion_tokens`` counts the closing end token; ``applied`` are the parameters used."""

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    stats: RequestStats
    applied: DecodingParams

    @property
    def tokens_per_forward(self) -> float:
        """Completion tokens per forward pass."""
        return self.completion_tokens / max(self.stats.forwards, 1)


@dataclass(slots=True)
class CompletionBuilder:
    """Collects the deltas of one request."""

    prompt_tokens: int
    applied: DecodingParams
    _deltas: list[TextDelta] = field(default_factory=list)

    def add(self, delta: TextDelta) -> None:
        """Take the next delta."""
        self._deltas.append(delta)

    def build(self) -> Completion:
        """The answer, once its last delta has come."""
        last = self._deltas[-1]
        assert last.finish is not None, "the answer is not finished"
        return Completion(
            text="".join(delta.text for delta in self._deltas),
            token_ids=[token_id for delta in self._deltas for token_id in delta.token_ids],
            finish_reason=last.finish,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=last.completion_tokens,
            stats=last.stats,
            applied=self.applied,
        )

"""How many forwards a request will take in all: unknown at admission, so estimated from those that have ended.

The hidden variables are the length of the answer and the tokens per forward (TPF); nothing that is known at admission
tells more about a single request (arXiv 2608.23807, finding 1; its eleven "levels" are the number of blocks). Lengths
are those of the last requests of the same kind. One that was cut, by its limit or a timeout, tells only that its
answer is longer: hence the Kaplan-Meier estimate of how many answers are longer than t.

The estimate is reported with its error (stats and metrics), and decides nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from unmask.engine.sequence import Sequence

_WINDOW = 256  # ended requests that are remembered of each kind
_LEAST = 8  # ended requests below which nothing is said
_WEIGHT = 4  # forwards that the others' TPF counts beside a request's own


@dataclass(slots=True)
class _Ended:
    """``length``: tokens committed. ``cut``: the answer would have been longer."""

    length: int
    forwards: int
    cut: bool


@dataclass(slots=True)
class _Kind:
    """The requests of one model under one rule, or those that score prompts, the oldest first."""

    ended: deque[_Ended] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    @property
    def tokens_per_forward(self) -> float:
        return sum(one.length for one in self.ended) / max(1, sum(one.forwards for one in self.ended))

    def expected_length(self, so_far: int, most: int) -> float:
        """The mean length of answers longer than ``so_far``, none longer than ``most``."""
        survival, at, mean = 1.0, so_far, float(so_far)
        ended = sorted((one for one in self.ended if one.length > so_far), key=lambda one: (one.length, one.cut))
        for number, one in enumerate(ended):
            length = min(one.length, most)
            mean += survival * (length - at)
            at = length
            if not one.cut:
                survival *= 1 - 1 / (len(ended) - number)
        return mean + survival * max(0, most - at)


class LevelEstimator:
    """Online estimates per kind of request: model or adapter, and rule. They go into the stats of each request."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def expect(self, sequence: Sequence) -> None:
        """``sequence`` has arrived."""
        sequence.stats.estimates = (self._forwards(sequence), None)

    def follow(self, sequence: Sequence) -> None:
        """``sequence`` took part in a step."""
        stats = sequence.stats
        if sequence.canvas.finish is not None:
            self.learn(sequence, cut=sequence.canvas.finish == "length")
        elif stats.first_block is not None and stats.estimates[1] is None:
            stats.estimates = (stats.estimates[0], self._forwards(sequence))

    def learn(self, sequence: Sequence, *, cut: bool) -> None:
        """``sequence`` has ended, ``cut`` unless its text came to its own end."""
        stats = sequence.stats
        if stats.forwards:
            ended = _Ended(stats.committed, stats.forwards, cut)
            self._kinds.setdefault(_kind(sequence), _Kind()).ended.append(ended)

    def _forwards(self, sequence: Sequence) -> float | None:
        """All forwards of ``sequence``, from where it stands now; None if it is too early to tell."""
        kind = self._kinds.get(_kind(sequence))
        if kind is None or len(kind.ended) < _LEAST:
            return None
        stats, canvas = sequence.stats, sequence.canvas
        left = kind.expected_length(stats.committed, canvas.length - canvas.prompt_length) - stats.committed
        per_forward = (stats.committed + _WEIGHT * kind.tokens_per_forward) / (stats.forwards + _WEIGHT)
        return stats.forwards + left / max(per_forward, 1e-9)


def _kind(sequence: Sequence) -> tuple[str, str]:
    return sequence.params.adapter, "" if sequence.params.answer else sequence.params.rule

"""What a step keeps of the log-probabilities that some of its requests ask for.

Shape letters: M candidates of a step, m rows of a part, n of them of requests that ask, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.logprobs import Logprobs, logprobs_of
from unmask.engine.batch import Candidates, Ints
from unmask.engine.scheduler import Span
from unmask.events import TokenLogprob


@dataclass(slots=True)
class Asked:
    """The rows of a part that ask: their places [n] int64 in the part and among the M candidates; alternatives."""

    rows: Tensor
    candidates: Ints
    count: int


def asked(spans: list[Span], candidates: Candidates, chosen: Ints, device: torch.device) -> Asked | None:
    """Of the candidates ``chosen`` for a part; None if none of them asks."""
    counts = [-1 if span.sequence.params.logprobs is None else span.sequence.params.logprobs for span in spans]
    if max(counts) < 0:
        return None
    of_row = np.array(counts)[candidates.spans[chosen]]
    rows = np.flatnonzero(of_row >= 0)
    if not len(rows):
        return None
    return Asked(torch.from_numpy(rows).to(device), chosen[rows], int(of_row.max()))


class StepLogprobs:
    """Gathers a step's log-probabilities, part by part on the device, then ``of`` a span at a time on the host."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Logprobs]] = []

    def add(self, asked: Asked, logits: Tensor, token: Tensor, mask_id: int | None) -> None:
        """``logits`` [n, V], the model's own for ``asked``, are overwritten; ``token`` [m] is all the part's."""
        self._parts.append((asked.candidates, logprobs_of(logits, token[asked.rows], asked.count, mask_id)))

    def of(self, span: Span, candidates: Ints, positions: Ints, tokens: Ints) -> dict[int, TokenLogprob] | None:
        """By position, for some of a span's ``candidates`` and the ``tokens`` chosen there; None if it does not ask."""
        count = span.sequence.params.logprobs
        if count is None:
            return None
        entries = {}
        for position, token, candidate in zip(positions.tolist(), tokens.tolist(), candidates.tolist(), strict=True):
            chosen, ids, values = self._rows[candidate]
            entries[position] = TokenLogprob(token, chosen, list(zip(ids[:count], values[:count], strict=True)))
        return entries

    @cached_property
    def _rows(self) -> dict[int, tuple[float, list[int], list[float]]]:
        """By candidate: log-probability of its token, ids and log-probabilities of the alternatives."""
        rows: dict[int, tuple[float, list[int], list[float]]] = {}
        for candidates, part in self._parts:
            told = zip(part.chosen.tolist(), part.ids.tolist(), part.values.tolist(), strict=True)
            rows.update(zip(candidates.tolist(), told, strict=True))
        return rows

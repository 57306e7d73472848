"""Which of a step's proposals become final: each segment asks its own request's commit rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.rules import RULES, Rule, RuleParams
from unmask.decoding.windows import Segment
from unmask.engine.batch import Layout, MaskedRows
from unmask.params import DecodingParams


@dataclass(slots=True)
class _Ballot:
    """The segments [n] int64 that one rule decides, and their parameters."""

    rule: Rule
    segments: Tensor
    params: RuleParams


class CommitPlan:
    """The rules of one step, ready on the device before the forward. S segments, at most B positions each."""

    def __init__(self, layout: Layout, masked: MaskedRows, device: torch.device) -> None:
        owners = [(span.sequence.params, segment) for span in layout.spans for segment in span.window.segments]
        self._shape = (len(owners), max(segment.end - segment.start for _, segment in owners))
        cells = masked.segments * self._shape[1] + masked.offsets
        self._cells = torch.from_numpy(cells).to(device)
        names = np.array([params.rule for params, _ in owners])
        self._ballots = [_ballot(name, np.flatnonzero(names == name), owners, device) for name in np.unique(names)]

    def decide(self, score: Tensor) -> Tensor:
        """Whether each of the M masked rows commits [M] bool, given its ``score`` [M] float64."""
        grid = score.new_full(self._shape, -torch.inf)
        grid.view(-1)[self._cells] = score
        if len(self._ballots) == 1:
            (ballot,) = self._ballots
            return ballot.rule.commit(grid, ballot.params).view(-1)[self._cells]
        commits = torch.zeros(self._shape, dtype=torch.bool, device=score.device)
        for ballot in self._ballots:
            commits[ballot.segments] = ballot.rule.commit(grid[ballot.segments], ballot.params)
        return commits.view(-1)[self._cells]


def _ballot(
    name: str, chosen: np.ndarray, owners: list[tuple[DecodingParams, Segment]], device: torch.device
) -> _Ballot:
    params, segments = zip(*(owners[index] for index in chosen), strict=True)
    return _Ballot(
        RULES[name],
        torch.from_numpy(chosen).to(device),
        RuleParams(
            quota=torch.tensor([segment.quota for segment in segments], device=device),
            threshold=torch.tensor([p.threshold for p in params], dtype=torch.float64, device=device),
            factor=torch.tensor([p.factor for p in params], dtype=torch.float64, device=device),
            activated=torch.tensor([segment.activated for segment in segments], device=device),
        ),
    )

"""Which of a step's proposals become final: each segment asks its own request's commit rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.rules import RULES, Rule, RuleParams
from unmask.decoding.windows import Segment
from unmask.engine.batch import Candidates, Layout
from unmask.params import DecodingParams

_Owner = tuple[DecodingParams, Segment]


@dataclass(slots=True)
class _Ballot:
    """The segments [n] int64 that one rule decides, and their parameters."""

    rule: Rule
    segments: Tensor
    params: RuleParams


class CommitPlan:
    """The rules of one step, ready on the device before the forward. S segments, at most B positions each."""

    def __init__(self, layout: Layout, candidates: Candidates, device: torch.device) -> None:
        owners = [(span.sequence.params, segment) for span in layout.spans for segment in span.window.segments]
        self._shape = (len(owners), max(segment.end - segment.start for _, segment in owners))
        cells = candidates.segments * self._shape[1] + candidates.offsets
        self._cells = torch.from_numpy(cells).to(device)
        names = np.array([params.rule for params, _ in owners])
        self._ballots = [_ballot(name, np.flatnonzero(names == name), owners, device) for name in np.unique(names)]
        self._edits = _Edits.of(candidates, owners, device)

    def decide(self, token: Tensor, score: Tensor) -> Tensor:
        """Whether each of the M candidates commits [M] bool, given its ``token`` int64 and ``score`` float64 [M]."""
        grid = score.new_full(self._shape, -torch.inf)
        grid.view(-1)[self._cells] = score if self._edits is None else self._edits.masked_only(score)
        if len(self._ballots) == 1:
            (ballot,) = self._ballots
            commits = ballot.rule.commit(grid, ballot.params)
        else:
            commits = torch.zeros(self._shape, dtype=torch.bool, device=score.device)
            for ballot in self._ballots:
                commits[ballot.segments] = ballot.rule.commit(grid[ballot.segments], ballot.params)
        decided = commits.view(-1)[self._cells]
        return decided if self._edits is None else decided | self._edits.decide(token, score)


@dataclass(slots=True)
class _Edits:
    """Which decided tokens are replaced: those whose proposal differs with a score above the threshold (LLaDA2.1).

    ``decided`` int64 and ``threshold`` float64, [M]: the token that stands there (-1: masked), and its request's.
    """

    decided: Tensor
    threshold: Tensor

    @classmethod
    def of(cls, candidates: Candidates, owners: list[_Owner], device: torch.device) -> _Edits | None:
        """None if nothing can be edited in this step."""
        if (candidates.decided < 0).all():
            return None
        thresholds = np.array([np.float32(p.edit_threshold) for p, _ in owners], dtype=np.float64)[candidates.segments]
        return cls(torch.from_numpy(candidates.decided).to(device), torch.from_numpy(thresholds).to(device))

    def masked_only(self, score: Tensor) -> Tensor:
        """``score``, with -inf where no mask is."""
        return torch.where(self.decided < 0, score, -torch.inf)

    def decide(self, token: Tensor, score: Tensor) -> Tensor:
        """Whether each candidate's decided token is replaced [M] bool."""
        return (self.decided >= 0) & (token != self.decided) & (score > self.threshold)


def _ballot(name: str, chosen: np.ndarray, owners: list[_Owner], device: torch.device) -> _Ballot:
    rule = RULES[name]
    round_ = np.float32 if rule.scoring.dtype is torch.float32 else np.float64
    rows = np.array(
        [
            (s.pace.quota, s.pace.share, round_(p.threshold), p.factor, p.entropy_bound, s.activated)
            for p, s in (owners[index] for index in chosen)
        ],
        dtype=np.float64,
    )
    params = RuleParams(*torch.from_numpy(rows.T.copy()).to(device))
    return _Ballot(rule, torch.from_numpy(chosen).to(device), params)

"""Which of a step's proposals become final, and what is masked again: each segment asks its own request's rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unmask.decoding.propose import Proposals
from unmask.decoding.rules import RULES, Rule, RuleParams, gap_bound
from unmask.decoding.windows import Segment
from unmask.engine.batch import Candidates, Layout
from unmask.params import RULE_TRAITS, DecodingParams

UNCHANGED = -1
MASKED_AGAIN = -2

_Owner = tuple[DecodingParams, Segment]


@dataclass(slots=True)
class _Ballot:
    """The segments [n] int64 that one rule decides, all of them as a slice, and their parameters."""

    rule: Rule
    segments: Tensor | slice
    params: RuleParams


class CommitPlan:
    """The rules of one step, ready on the device before the forward. S segments, at most B positions each."""

    def __init__(self, layout: Layout, candidates: Candidates, device: torch.device) -> None:
        owners = [(span.sequence.params, segment) for span in layout.spans for segment in span.window.segments]
        self._shape = (len(owners), max(segment.reach - segment.start for _, segment in owners))
        cells = candidates.segments * self._shape[1] + candidates.offsets
        self._cells = torch.from_numpy(cells).to(device)
        names = np.array([params.rule for params, _ in owners])
        self._ballots = [_ballot(name, np.flatnonzero(names == name), owners, device) for name in np.unique(names)]
        self._decided = _Decided.of(candidates, owners, device)

    def decide(self, proposals: Proposals) -> Tensor:
        """What becomes of each of the M candidates [M] int64: its new token, ``UNCHANGED``, or ``MASKED_AGAIN``."""
        token, score, decided = proposals.token, proposals.score, self._decided
        masked = self._grid(score if decided is None else decided.masked_only(score))
        second = None if proposals.second is None else self._grid(proposals.second, torch.nan)
        standing = None if decided is None else self._grid(decided.standing(score))
        commits, remasks = torch.zeros(2, *self._shape, dtype=torch.bool, device=score.device)
        for ballot in self._ballots:
            of = ballot.segments
            seconds = () if second is None or not ballot.rule.by_two else (second[of],)
            commits[of] = chosen = ballot.rule.commit(masked[of], ballot.params, *seconds)
            if ballot.rule.remask is not None and standing is not None:
                remasks[of] = ballot.rule.remask(chosen, standing[of], ballot.params, *seconds)
        changed = commits.view(-1)[self._cells]
        if decided is None:
            return torch.where(changed, token, UNCHANGED)
        outcome = torch.where(changed | decided.edits(token, score), token, UNCHANGED)
        return outcome.masked_fill_(remasks.view(-1)[self._cells], MASKED_AGAIN)

    def _grid(self, values: Tensor, elsewhere: float = -torch.inf) -> Tensor:
        """One value per candidate [M], put in its place [S, B]."""
        grid = values.new_full(self._shape, elsewhere)
        grid.view(-1)[self._cells] = values
        return grid


@dataclass(slots=True)
class _Decided:
    """Candidates that are decided already, ``token`` int64 [M] (-1: masked). Their proposals may replace them.

    That takes another token and a score above the ``threshold`` float64 [M] of its request (LLaDA2.1); infinity where
    nothing is edited.
    """

    token: Tensor
    threshold: Tensor

    @classmethod
    def of(cls, candidates: Candidates, owners: list[_Owner], device: torch.device) -> _Decided | None:
        """None if all candidates of this step are masked."""
        if (candidates.decided < 0).all():
            return None
        thresholds = [p.edit_threshold if RULE_TRAITS[p.rule].edits else np.inf for p, _ in owners]
        of_rows = np.array(thresholds, dtype=np.float32).astype(np.float64)[candidates.segments]
        return cls(torch.from_numpy(candidates.decided).to(device), torch.from_numpy(of_rows).to(device))

    def masked_only(self, score: Tensor) -> Tensor:
        """``score``, with -inf where no mask is."""
        return torch.where(self.token < 0, score, -torch.inf)

    def standing(self, score: Tensor) -> Tensor:
        """``score``, with -inf where a mask is."""
        return torch.where(self.token < 0, -torch.inf, score)

    def edits(self, token: Tensor, score: Tensor) -> Tensor:
        """Whether each candidate's decided token is replaced [M] bool."""
        return (self.token >= 0) & (token != self.token) & (score > self.threshold)


def _ballot(name: str, chosen: np.ndarray, owners: list[_Owner], device: torch.device) -> _Ballot:
    rule = RULES[name]
    round_ = np.float32 if rule.scoring.dtype is torch.float32 else np.float64
    rows = np.array([_numbers(owners[index], round_) for index in chosen], dtype=np.float64)
    params = RuleParams(*torch.from_numpy(rows.T.copy()).to(device))
    everything = len(chosen) == len(owners)
    return _Ballot(rule, slice(None) if everything else torch.from_numpy(chosen).to(device), params)


def _numbers(owner: _Owner, round_: type[np.floating[Any]]) -> tuple[Any, ...]:
    """One segment's ``RuleParams``, in order."""
    params, segment = owner
    return (
        segment.pace.quota,
        segment.pace.share,
        round_(params.threshold),
        params.factor,
        params.entropy_bound,
        segment.activated,
        round_(params.anchor_threshold),
        params.radius,
        round_(params.low_threshold),
        round_(params.verify_threshold),
        gap_bound(params.gap_threshold, segment.progress),
        segment.end - segment.start,
    )

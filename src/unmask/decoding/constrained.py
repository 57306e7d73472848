"""Proposals that are valid together: the tokens of one filling of a request's canvas, scored as its rule wants them.

At temperature 0 they are the most probable valid filling, above it a sample of the model's distribution given that the
answer is valid: each token is drawn given those to its left, what top_p and top_k leave of them, and all valid ways on.
Whatever part of one filling a rule commits, the rest of that filling still completes it. Scores are those of the
distribution that each position has by itself once the answer is known to be valid: what is certain scores 1.

Shape letters: m rows (candidate positions of one request), V vocabulary, and those of ``filling.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.constraints.automaton import NO_STATE, Automaton
from unmask.decoding.canvas import Canvas
from unmask.decoding.filling import Floats, Plan, can_finish
from unmask.decoding.propose import (
    Chances,
    EndTokens,
    Proposals,
    Sampling,
    Score,
    Scoring,
    distribution,
    draw_tokens,
    likeliest_tokens,
    propose,
)
from unmask.decoding.recollection import Recall

_OPEN = -1
_COLDEST = 1e-30  # below it float32 has no room
_LEAST = -1e30  # stands for logits of -inf: a valid token is possible, however unlikely


@dataclass(slots=True)
class Stretch:
    """The canvas from its first open position to the last candidate, L positions, and what lies around it.

    ``state``: where the automaton is before it. ``classes`` [L]: of the tokens that stand there; ``_OPEN`` if open.
    ``rows`` [L]: each position's row among the candidates, -1 if it is none. ``ends_from``: the place of the first
    position that may hold an end token. ``finish`` [Q]: from which states the rest of the canvas can be filled.
    """

    automaton: Automaton
    state: int
    classes: NDArray[np.int32]
    rows: NDArray[np.int64]
    ends_from: int
    finish: NDArray[np.bool_]

    @classmethod
    def of(cls, canvas: Canvas, automaton: Automaton, positions: NDArray[np.int64], min_tokens: int) -> Stretch:
        """The stretch of ``canvas`` with the candidate ``positions``, ascending, all within the canvas's limit."""
        begin = canvas.prompt_length
        masked = canvas.masked[begin : canvas.limit]
        first = min(begin + int(masked.argmax()) if masked.any() else canvas.limit, int(positions[0]))
        last = int(positions[-1]) + 1
        state = automaton.start
        for kind in automaton.class_of[canvas.tokens[begin:first]].tolist():
            state = int(automaton.next_states[state, kind])
            assert state != NO_STATE, "a constrained canvas holds what its automaton does not allow"
        rows = np.full(last - first, -1)
        rows[positions - first] = np.arange(len(positions))
        ahead = slice(last, canvas.limit)
        return cls(
            automaton,
            state,
            np.where(canvas.masked[first:last], _OPEN, automaton.class_of[canvas.tokens[first:last]]),
            rows,
            begin + min_tokens - first,
            can_finish(automaton, canvas.tokens[ahead], canvas.masked[ahead], begin + min_tokens - last),
        )

    @property
    def edited(self) -> NDArray[np.bool_]:
        """Candidates that hold a token already, [L]."""
        edited: NDArray[np.bool_] = (self.classes != _OPEN) & (self.rows >= 0)
        return edited

    def weights(self, of_rows: Floats) -> Floats:
        """Weights of the classes at each position [L, C], given those of the candidates ``of_rows`` [m, C].

        What stands there has weight 1, all else 0. An open position that is no candidate may become anything.
        """
        weights = np.where((self.rows >= 0)[:, None], of_rows[self.rows], 0.0)
        fixed = np.flatnonzero(self.classes != _OPEN)
        weights[fixed] = -np.inf
        weights[fixed, self.classes[fixed]] = 0.0
        weights[: max(self.ends_from, 0), self.automaton.end_class] = -np.inf
        return weights


@dataclass(slots=True)
class Masses:
    """Sums of a distribution by token class. ``chunk``: rows that are worked on at once."""

    class_of: Tensor
    classes: int
    chunk: int

    def peaks(self, logits: Tensor) -> Floats:
        """The largest logit of each class [m, C]."""
        return self._by_chunk(logits, lambda rows, index: self._peaks(rows, index).double())

    def sums(self, logits: Tensor) -> Floats:
        """The logarithm of the summed exponentials of each class [m, C]; each token's is exact to float32."""
        return self._by_chunk(logits, self._sums)

    def _peaks(self, rows: Tensor, index: Tensor) -> Tensor:
        return rows.new_full((len(rows), self.classes), -torch.inf).scatter_reduce_(1, index, rows, "amax")

    def _sums(self, rows: Tensor, index: Tensor) -> Tensor:
        peaks = self._peaks(rows, index).nan_to_num(neginf=_LEAST)
        relative = torch.exp(rows - peaks.gather(1, index)).double()
        sums = relative.new_zeros(peaks.shape).scatter_add_(1, index, relative)
        return sums.log() + peaks

    def _by_chunk(self, logits: Tensor, reduce: Callable[[Tensor, Tensor], Tensor]) -> Floats:
        parts = []
        for rows in torch.split(logits, self.chunk):
            index = self.class_of.expand(len(rows), -1)
            parts.append(reduce(rows, index))
        return torch.cat(parts).cpu().numpy()


def propose_filling(
    logits: Tensor,
    stretch: Stretch,
    mask_id: int | None,
    scoring: Scoring,
    ends: EndTokens | None,
    sampling: Sampling | None,
    chances: Chances | None,
    decided: Tensor | None,
    recall: Recall | None,
    chunk: int,
) -> Proposals:
    """What ``propose`` gives for ``logits`` [m, V], for the candidates of one constrained request.

    The ``likeliest`` tokens are those of the most probable filling, in models without a mask; in others they are the
    proposed ones. ``chunk`` rows at once are copied.
    """
    peak = logits.amax(dim=-1)
    if recall is not None:
        recall.read(logits, likeliest_tokens(logits, mask_id))
    logits.nan_to_num_(nan=_LEAST, neginf=_LEAST)
    filler = _Filler(stretch, logits, chunk)
    if sampling is None or bool(sampling.greedy[0]):
        token = likeliest = filler.best()
    elif mask_id is None:
        likeliest, token = filler.best(), filler.sample(sampling)
    else:
        token = likeliest = filler.sample(sampling)
    if scoring.kind is not Score.CHANCE:
        filler.reweight(_temperature(sampling) if sampling is not None and scoring.tempered else 1.0)
    given = token, likeliest
    proposals = propose(logits, mask_id, scoring, ends, sampling, chances, decided, recall, given)
    proposals.score.masked_fill_(peak.isnan() | (peak == torch.inf), torch.nan)
    return proposals


def _temperature(sampling: Sampling) -> float:
    """That of all rows, which are of one request."""
    return max(float(sampling.temperature[0]), _COLDEST)


@lru_cache(maxsize=64)
def _class_of(automaton: Automaton, device: torch.device) -> Tensor:
    """The class of each token [V] int64, there where the logits are."""
    return torch.tensor(automaton.class_of, dtype=torch.int64, device=device)


class _Filler:
    """The fillings of one stretch. ``states`` [L + 1] are those that the last filling went through."""

    def __init__(self, stretch: Stretch, logits: Tensor, chunk: int) -> None:
        automaton = stretch.automaton
        self._stretch, self._logits = stretch, logits
        self._plan = Plan.of(automaton)
        self._next = automaton.next_states
        self._class_of = _class_of(automaton, logits.device)
        self._masses = Masses(self._class_of, automaton.classes, chunk)
        self._finish = np.where(stretch.finish, 0.0, -np.inf)
        self._sums: dict[float, tuple[Floats, Floats]] = {}
        self.states: list[int] = []

    def best(self) -> Tensor:
        """The tokens [m] of the most probable filling."""
        links = self._plan.link_peaks(self._stretch.weights(self._masses.peaks(self._logits)))
        ahead = self._plan.best_ahead(links, self._finish)
        return self._fill(ahead, lambda row, weights: (self._logits[row].double() + weights).argmax())

    def sample(self, sampling: Sampling) -> Tensor:
        """Tokens [m] drawn as ``sampling`` says."""
        temperature = _temperature(sampling)

        def draw(row: int, weights: Tensor) -> Tensor:
            logits = (self._logits[row].double() + temperature * weights)[None]
            one = sampling.row(row)
            return draw_tokens(distribution(logits, None, one), None, logits.argmax(dim=-1), one.draw)[0]

        return self._fill(self._summed(temperature)[1], draw)

    def reweight(self, temperature: float) -> None:
        """Make each row's logits, divided by ``temperature``, those of its distribution in valid answers alone."""
        links, ahead = self._summed(temperature)
        weights = self._plan.class_weights(self._plan.sum_behind(links, self._stretch.state), ahead)
        weights[: max(self._stretch.ends_from, 0), -1] = -np.inf
        for place in np.flatnonzero(self._stretch.edited).tolist():
            weights[place] = self._replacements(place)
        of_rows = np.empty((len(self._logits), weights.shape[1]))
        candidates = self._stretch.rows >= 0
        of_rows[self._stretch.rows[candidates]] = weights[candidates]
        factors = torch.from_numpy(of_rows * temperature).to(self._logits)
        chunk = self._masses.chunk
        for first in range(0, len(factors), chunk):
            self._logits[first : first + chunk] += factors[first : first + chunk, self._class_of]

    def _summed(self, temperature: float) -> tuple[Floats, Floats]:
        """The sums of the links [L, K] and of all ways ahead [L + 1, Q] at ``temperature``."""
        if temperature not in self._sums:
            logits = self._logits
            if temperature != 1.0:  # relative to the largest, so that none grows beyond float32
                logits = ((logits - logits.max(dim=-1, keepdim=True).values) / temperature).clamp(min=_LEAST)
            links = self._plan.link_sums(self._stretch.weights(self._masses.sums(logits)))
            self._sums[temperature] = links, self._plan.sum_ahead(links, self._finish)
        return self._sums[temperature]

    def _fill(self, ahead: Floats, choose: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Left to right: ``choose`` gets a row and what each token [V] leaves possible behind it."""
        stretch, state = self._stretch, self._stretch.state
        tokens = torch.empty(len(self._logits), dtype=torch.int64, device=self._logits.device)
        onwards = np.pad(ahead, ((0, 0), (0, 1)), constant_values=-np.inf)  # NO_STATE, -1, is its last column
        self.states = [state]
        for place, (kind, row) in enumerate(zip(stretch.classes.tolist(), stretch.rows.tolist(), strict=True)):
            onward = onwards[place + 1, self._next[state]]
            if place < stretch.ends_from:
                onward[-1] = -np.inf
            if kind == _OPEN:
                kind = int(onward.argmax())
                if row >= 0:
                    tokens[row] = choose(row, self._of_tokens(onward))
                    kind = int(stretch.automaton.class_of[int(tokens[row])])
            state = int(self._next[state, kind])
            assert np.isfinite(ahead[place + 1, state]), "there is no valid filling"
            self.states.append(state)
        for place in np.flatnonzero(stretch.edited).tolist():
            row = int(stretch.rows[place])
            tokens[row] = choose(row, self._of_tokens(self._replacements(place)))
        return tokens

    def _replacements(self, place: int) -> Floats:
        """Which classes may replace what stands at ``place`` [C]: 0, else -inf.

        Those that lead from the same state to the same: any number of edits beside any part of the filling is valid.
        """
        same = self._next[self.states[place]] == self.states[place + 1]
        return np.where(same, 0.0, -np.inf)

    def _of_tokens(self, of_classes: Floats) -> Tensor:
        """Weights of the classes [C], the largest of them 0, as those of the tokens [V]."""
        return torch.from_numpy(of_classes - of_classes.max()).to(self._logits.device)[self._class_of]

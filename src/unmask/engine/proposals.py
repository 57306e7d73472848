"""The candidate rows of a step in parts that can go through the head together, with their requests' parameters.

A part holds rows of one rule, all greedy or all sampled, at most as many as their logits may take memory.
Parts are made before the forward, so that the device need not wait for the host after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.decoding.propose import EndTokens, Sampling, Score
from unmask.decoding.random import CHANCE, TOKEN, uniform
from unmask.decoding.rules import RULES, Rule
from unmask.engine.batch import Candidates, Ints, Layout
from unmask.params import DecodingParams


@dataclass(slots=True)
class Guidance:
    """Classifier-free guidance of some rows of a part: which, the rows without prompt, and the scale [n, 1]."""

    where: Tensor
    unconditional_rows: Tensor
    scale: Tensor


@dataclass(slots=True)
class Chances:
    """Draws [m] float64 for rules that leave something to chance, and Dream's ``alg_temp`` [m] (0: none)."""

    draw: Tensor
    alg_temp: Tensor


@dataclass(slots=True)
class Part:
    """``where`` [m] int64 are the part's places among the M candidates, ``rows`` [m] their hidden rows.

    ``temperature`` [m, 1] divides the logits if it is there; such rows' predictions are remembered under ``slots`` [m].
    """

    where: Tensor
    rows: Tensor
    rule: Rule
    guidance: Guidance | None
    temperature: Tensor | None
    slots: Tensor | None
    ends: EndTokens | None
    sampling: Sampling | None
    chances: Chances | None


class PartMaker:
    """Makes the parts of one step."""

    def __init__(self, layout: Layout, candidates: Candidates, end_ids: Tensor) -> None:
        self._spans = layout.spans
        self._sequences = [span.sequence for span in layout.spans]
        self._params = [sequence.params for sequence in self._sequences]
        self._candidates = candidates
        self._end_ids = end_ids
        self._device = end_ids.device

    def parts(self, most_rows: int) -> Iterator[Part]:
        """All parts, of at most ``most_rows`` rows each."""
        kinds = [_Kind.of(p) for p in self._params]
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        kind_of_row = self._of_rows([numbers[kind] for kind in kinds])
        for kind, number in numbers.items():
            chosen = np.flatnonzero(kind_of_row == number)
            for first in range(0, len(chosen), most_rows):
                yield self._part(chosen[first : first + most_rows], kind)

    def _part(self, chosen: Ints, kind: _Kind) -> Part:
        return Part(
            where=self._upload(chosen),
            rows=self._upload(self._candidates.rows[chosen]),
            rule=kind.rule,
            guidance=self._guidance(chosen),
            temperature=self._temperature(chosen),
            slots=self._slots(chosen),
            ends=self._ends(chosen),
            sampling=self._sampling(chosen) if kind.sampled else None,
            chances=self._chances(chosen) if kind.by_chance else None,
        )

    def _temperature(self, chosen: Ints) -> Tensor | None:
        """What the denoisers themselves divide the logits by."""
        temperatures = [segment.temperature for span in self._spans for segment in span.window.segments]
        if all(temperature == 1.0 for temperature in temperatures):
            return None
        of_rows = np.array(temperatures, dtype=np.float32)[self._candidates.segments[chosen]]
        return self._upload(of_rows[:, None])

    def _slots(self, chosen: Ints) -> Tensor | None:
        """Where the predictions of canvas rows are kept, in models that are conditioned on them."""
        if all(span.window.canvas_start is None for span in self._spans):
            return None
        spans, positions = self._candidates.spans[chosen], self._candidates.positions[chosen]
        slots = [self._sequences[span].slots(False)[at] for span, at in zip(spans, positions, strict=True)]
        return self._upload(np.array(slots, dtype=np.int64))

    def _chances(self, chosen: Ints) -> Chances:
        return Chances(self._draws(chosen, CHANCE), self._of_chosen(chosen, [p.alg_temp for p in self._params]))

    def _guidance(self, chosen: Ints) -> Guidance | None:
        unconditional = self._candidates.unconditional_rows[chosen]
        guided = np.flatnonzero(unconditional >= 0)
        if not len(guided):
            return None
        scale = self._of_rows([p.cfg_scale for p in self._params])[chosen[guided]].astype(np.float32)
        return Guidance(self._upload(guided), self._upload(unconditional[guided]), self._upload(scale[:, None]))

    def _ends(self, chosen: Ints) -> EndTokens | None:
        if all(p.end_tokens == "free" and not p.min_tokens for p in self._params):
            return None
        earliest = self._of_rows([s.canvas.prompt_length + s.params.min_tokens for s in self._sequences])
        never = self._of_rows([p.end_tokens == "never" for p in self._params]) | (self._candidates.positions < earliest)
        last = self._of_rows([p.end_tokens == "last" for p in self._params])
        return EndTokens(self._end_ids, self._upload(never[chosen]), self._upload(last[chosen]))

    def _sampling(self, chosen: Ints) -> Sampling:
        params = self._params
        return Sampling(
            temperature=self._of_chosen(chosen, [p.temperature or 1.0 for p in params]).float(),
            top_p=self._of_chosen(chosen, [p.top_p for p in params]),
            top_k=self._of_chosen(chosen, [p.top_k for p in params]),
            draw=self._draws(chosen, TOKEN),
            greedy=self._of_chosen(chosen, [p.temperature == 0 for p in params]),
            tempered=self._of_chosen(chosen, [RULES[p.rule].tempered for p in params]),
        )

    def _draws(self, chosen: Ints, stream: int) -> Tensor:
        return uniform(
            self._of_chosen(chosen, [p.seed for p in self._params]),
            self._upload(self._candidates.positions[chosen]),
            self._of_chosen(chosen, [s.stats.forwards for s in self._sequences]),
            stream,
        )

    def _of_rows(self, values: list[float] | list[int] | list[bool]) -> NDArray[Any]:
        """One value per span, spread over the M candidates."""
        return np.array(values)[self._candidates.spans]

    def _of_chosen(self, chosen: Ints, values: list[float] | list[int] | list[bool]) -> Tensor:
        """One value per span (float64, int64 or bool), spread over the ``chosen`` candidates."""
        return self._upload(self._of_rows(values)[chosen])

    def _upload(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the rows of one part have in common."""

    rule: Rule
    sampled: bool
    by_chance: bool

    @classmethod
    def of(cls, params: DecodingParams) -> _Kind:
        """Greedy rows are sampled too if the rule's score is that of a filtered distribution."""
        rule = RULES[params.rule]
        filtered = rule.tempered and (params.top_p < 1 or params.top_k > 0)
        by_chance = rule.score is Score.CHANCE or params.alg_temp > 0
        return cls(rule, params.temperature > 0 or filtered, by_chance)

"""The candidates of a step in parts that can go through the head together, with their requests' parameters.

A part holds rows of one rule, all greedy or all sampled, at most as many as their logits may take memory. What the host
knows of all candidates goes to the device once, before the forward, so that the device need not wait for it after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.decoding.constrained import Stretch
from unmask.decoding.propose import Chances, EndTokens, Sampling, Score, Scoring
from unmask.decoding.random import CHANCE, TOKEN, uniform
from unmask.decoding.recollection import RECOLLECTIONS, Recall, Recollection, RuleMemory
from unmask.decoding.rules import scoring_of
from unmask.engine.batch import Candidates, Layout
from unmask.engine.logprobs import Asked, asked
from unmask.engine.sequence import Sequence
from unmask.params import RULE_TRAITS, DecodingParams


@dataclass(slots=True)
class Guidance:
    """Classifier-free guidance of some rows of a part: which, the rows without prompt, and the scale [n, 1]."""

    where: Tensor
    unconditional_rows: Tensor
    scale: Tensor


@dataclass(slots=True)
class LogitBias:
    """``values`` [n] float32 for the logits of tokens ``ids`` [n] in ``rows`` [n] of a part."""

    rows: Tensor
    ids: Tensor
    values: Tensor


@dataclass(slots=True)
class Part:
    """``where`` [m] int64 are the part's places among the M candidates, ``rows`` [m] their hidden rows.

    ``bias`` is added to the logits and ``temperature`` [m, 1] then divides them, if they are there. ``asked``: the rows
    whose log-probabilities are to be told. ``stretch``: that of a constrained request. ``taught`` [m]: the tokens of
    answers that are known already, -1 in the rows of others.
    """

    where: Tensor
    rows: Tensor
    scoring: Scoring
    guidance: Guidance | None
    temperature: Tensor | None
    ends: EndTokens | None
    sampling: Sampling | None
    chances: Chances | None
    bias: LogitBias | None
    asked: Asked | None
    decided: Tensor | None
    recall: Recall | None
    stretch: Stretch | None
    taught: Tensor | None


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the rows of one part have in common."""

    scoring: Scoring
    sampled: bool
    filtered: bool
    by_chance: bool
    remasks: bool
    recollection: Recollection | None

    @classmethod
    def of(cls, params: DecodingParams) -> _Kind:
        """Greedy rows are sampled too if their score is that of a filtered distribution."""
        scoring = scoring_of(params)
        cut = params.top_p < 1 or params.top_k > 0
        sampled = params.temperature > 0 or (scoring.tempered and cut)
        by_chance = scoring.kind is Score.CHANCE or params.alg_temp > 0
        remasks = RULE_TRAITS[params.rule].remasks
        return cls(scoring, sampled, sampled and cut, by_chance, remasks, RECOLLECTIONS.get(params.rule))


class PartMaker:
    """Makes the parts of one step. Properties of all M candidates are uploaded, or drawn, when the first part asks."""

    def __init__(self, layout: Layout, candidates: Candidates, end_ids: Tensor, vocab: int) -> None:
        self._spans = layout.spans
        self._sequences = [span.sequence for span in layout.spans]
        self._candidates = candidates
        self._end_ids = end_ids
        self._vocab = vocab
        self._device = end_ids.device
        self._rows = self._upload(candidates.rows)

    def parts(self, most_rows: int) -> Iterator[Part]:
        """All parts, of at most ``most_rows`` rows each; but the rows of a constrained request stay together."""
        kinds = [_Kind.of(sequence.params) for sequence in self._sequences]
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        kind_of_row = np.array([numbers[kind] for kind in kinds])[self._candidates.spans]
        for span, sequence in enumerate(self._sequences):
            if sequence.automaton is not None and len(chosen := self._within_limit(span)):
                kind_of_row[chosen] = -1
                positions, min_tokens = self._candidates.positions[chosen], sequence.params.min_tokens
                stretch = Stretch.of(sequence.canvas, sequence.automaton, positions, min_tokens)
                yield self._part(chosen, kinds[span], stretch)
        for kind, number in numbers.items():
            chosen = np.flatnonzero(kind_of_row == number)
            for first in range(0, len(chosen), most_rows):
                yield self._part(chosen[first : first + most_rows], kind)

    def _within_limit(self, span: int) -> NDArray[np.int64]:
        """The rows of ``span`` but those that lie behind its canvas's limit: they only fill a block, and are free."""
        own = self._candidates.spans == span
        return np.flatnonzero(own & (self._candidates.positions < self._sequences[span].canvas.limit))

    def _part(self, chosen: NDArray[np.int64], kind: _Kind, stretch: Stretch | None = None) -> Part:
        where = self._upload(chosen)
        return Part(
            where=where,
            rows=self._rows[where],
            scoring=kind.scoring,
            guidance=self._guidance(chosen),
            temperature=None if self._temperature is None else self._temperature[where],
            ends=None if self._ends is None else EndTokens(self._end_ids, *(flag[where] for flag in self._ends)),
            sampling=self._sampling(where, kind.filtered) if kind.sampled else None,
            chances=Chances(self._chance_draws[where], self._alg_temp[where]) if kind.by_chance else None,
            bias=self._bias(chosen),
            asked=asked(self._spans, self._candidates, chosen, self._device),
            decided=self._upload(self._candidates.decided[chosen]) if kind.remasks else None,
            recall=None if kind.recollection is None else self._recall(chosen, where, kind.recollection),
            stretch=stretch,
            taught=self._taught(chosen),
        )

    def _taught(self, chosen: NDArray[np.int64]) -> Tensor | None:
        """What the answers that are known already have in the ``chosen`` rows; None if there are no such answers."""
        taught = [span for span, sequence in enumerate(self._sequences) if sequence.params.answer]
        if not taught:
            return None
        spans, positions = self._candidates.spans[chosen], self._candidates.positions[chosen]
        tokens = np.full(len(chosen), -1)
        for span in taught:
            own = spans == span
            tokens[own] = self._sequences[span].known_tokens(positions[own])
        return self._upload(tokens)

    def _recall(self, chosen: NDArray[np.int64], where: Tensor, recollection: Recollection) -> Recall:
        """What the rule of the ``chosen`` rows remembers of them, request by request."""
        spans, positions = self._candidates.spans[chosen], self._candidates.positions[chosen]
        runs, known = [], []
        for own in np.split(np.arange(len(chosen)), np.flatnonzero(np.diff(spans)) + 1):
            sequence = self._sequences[spans[own[0]]]
            if sequence.rule_memory is None:
                params = sequence.params
                sequence.rule_memory = RuleMemory(params.rule, params.block_length, self._vocab, self._device)
            runs.append((sequence.rule_memory, self._upload(sequence.rule_memory.lines(positions[own]))))
            known.append(sequence.rule_memory.take(positions[own]))
        options = {name: self._of_params(attrgetter(name))[where] for name in recollection.options}
        return Recall(recollection, runs, self._upload(np.concatenate(known)), options)

    def _guidance(self, chosen: NDArray[np.int64]) -> Guidance | None:
        unconditional = self._candidates.unconditional_rows[chosen]
        guided = np.flatnonzero(unconditional >= 0)
        if not len(guided):
            return None
        where = self._upload(guided)
        scale = self._of_params(lambda p: p.cfg_scale).float()[self._upload(chosen[guided])]
        return Guidance(where, self._upload(unconditional[guided]), scale[:, None])

    def _bias(self, chosen: NDArray[np.int64]) -> LogitBias | None:
        if not any(sequence.params.logit_bias for sequence in self._sequences):
            return None
        biases = [self._sequences[span].params.logit_bias for span in self._candidates.spans[chosen]]
        rows = np.repeat(np.arange(len(chosen)), [len(bias) for bias in biases])
        ids = np.array([token for bias in biases for token in bias], dtype=np.int64)
        values = np.array([value for bias in biases for value in bias.values()], dtype=np.float32)
        return LogitBias(self._upload(rows), self._upload(ids), self._upload(values))

    def _sampling(self, where: Tensor, filtered: bool) -> Sampling:
        temperature, top_p, top_k, draw, greedy = (values[where] for values in self._sampled)
        return Sampling(temperature, top_p, top_k, draw, greedy, filtered)

    @cached_property
    def _temperature(self) -> Tensor | None:
        """What the denoisers themselves divide the logits by [M, 1]; None if none does."""
        temperatures = [segment.temperature for span in self._spans for segment in span.window.segments]
        if all(temperature == 1.0 for temperature in temperatures):
            return None
        return self._upload(np.array(temperatures, dtype=np.float32)[self._candidates.segments])[:, None]

    @cached_property
    def _ends(self) -> tuple[Tensor, Tensor] | None:
        """Where end tokens are never proposed, and where they are put last, [M] each; None if they are free."""
        if all(s.params.end_tokens == "free" and not s.params.min_tokens for s in self._sequences):
            return None
        earliest = self._of_sequences(lambda s: s.canvas.prompt_length + s.params.min_tokens)
        never = self._of_params(lambda p: p.end_tokens == "never") | (self._positions < earliest)
        return never, self._of_params(lambda p: p.end_tokens == "last")

    @cached_property
    def _sampled(self) -> tuple[Tensor, ...]:
        """Temperature, top_p, top_k, draw, greedy, [M] each."""
        return (
            self._of_params(lambda p: p.temperature or 1.0).float(),
            self._of_params(lambda p: p.top_p),
            self._of_params(lambda p: p.top_k),
            self._draws(TOKEN),
            self._of_params(lambda p: p.temperature == 0),
        )

    @cached_property
    def _chance_draws(self) -> Tensor:
        return self._draws(CHANCE)

    @cached_property
    def _alg_temp(self) -> Tensor:
        return self._of_params(lambda p: p.alg_temp)

    @cached_property
    def _positions(self) -> Tensor:
        return self._upload(self._candidates.positions)

    @cached_property
    def _span_of(self) -> Tensor:
        return self._upload(self._candidates.spans)

    def _draws(self, stream: int) -> Tensor:
        seed, step = self._of_params(lambda p: p.seed), self._of_sequences(lambda s: s.step)
        return uniform(seed, self._positions, step, stream)

    def _of_params(self, value: Callable[[DecodingParams], float | int | bool]) -> Tensor:
        return self._of_sequences(lambda sequence: value(sequence.params))

    def _of_sequences(self, value: Callable[[Sequence], float | int | bool]) -> Tensor:
        """One value per span (float64, int64 or bool), spread over the M candidates on the device."""
        return self._upload(np.array([value(sequence) for sequence in self._sequences]))[self._span_of]

    def _upload(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

"""The masked rows of a step in parts that can go through the head together, with their requests' parameters.

A part holds rows of one score precision, all greedy or all sampled, at most as many as their logits may take memory.
Parts are made before the forward, so that the device need not wait for the host after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.decoding.propose import EndTokens, Sampling
from unmask.decoding.random import uniform
from unmask.decoding.rules import RULES
from unmask.engine.batch import Ints, Layout, MaskedRows


@dataclass(slots=True)
class Guidance:
    """Classifier-free guidance of some rows of a part: which, the rows without prompt, and the scale [n, 1]."""

    where: Tensor
    unconditional_rows: Tensor
    scale: Tensor


@dataclass(slots=True)
class Part:
    """``where`` [m] int64 are the part's places among the M masked rows, ``rows`` [m] their hidden rows."""

    where: Tensor
    rows: Tensor
    score_dtype: torch.dtype
    guidance: Guidance | None
    ends: EndTokens | None
    sampling: Sampling | None


class PartMaker:
    """Makes the parts of one step."""

    def __init__(self, layout: Layout, masked: MaskedRows, end_ids: Tensor) -> None:
        self._sequences = [span.sequence for span in layout.spans]
        self._params = [sequence.params for sequence in self._sequences]
        self._masked = masked
        self._end_ids = end_ids
        self._device = end_ids.device

    def parts(self, most_rows: int) -> Iterator[Part]:
        """All parts, of at most ``most_rows`` rows each."""
        wide = self._of_rows([RULES[p.rule].score_dtype == torch.float64 for p in self._params])
        sampled = self._of_rows([p.temperature > 0 for p in self._params])
        for dtype, drawn in product((torch.float64, torch.float32), (False, True)):
            chosen = np.flatnonzero((wide == (dtype == torch.float64)) & (sampled == drawn))
            for first in range(0, len(chosen), most_rows):
                yield self._part(chosen[first : first + most_rows], dtype, drawn)

    def _part(self, chosen: Ints, dtype: torch.dtype, sampled: bool) -> Part:
        return Part(
            where=self._upload(chosen),
            rows=self._upload(self._masked.rows[chosen]),
            score_dtype=dtype,
            guidance=self._guidance(chosen),
            ends=self._ends(chosen),
            sampling=self._sampling(chosen) if sampled else None,
        )

    def _guidance(self, chosen: Ints) -> Guidance | None:
        unconditional = self._masked.unconditional_rows[chosen]
        guided = np.flatnonzero(unconditional >= 0)
        if not len(guided):
            return None
        scale = self._of_rows([p.cfg_scale for p in self._params])[chosen[guided]].astype(np.float32)
        return Guidance(self._upload(guided), self._upload(unconditional[guided]), self._upload(scale[:, None]))

    def _ends(self, chosen: Ints) -> EndTokens | None:
        if all(p.end_tokens == "free" and not p.min_tokens for p in self._params):
            return None
        earliest = self._of_rows([s.canvas.prompt_length + s.params.min_tokens for s in self._sequences])
        never = self._of_rows([p.end_tokens == "never" for p in self._params]) | (self._masked.positions < earliest)
        last = self._of_rows([p.end_tokens == "last" for p in self._params])
        return EndTokens(self._end_ids, self._upload(never[chosen]), self._upload(last[chosen]))

    def _sampling(self, chosen: Ints) -> Sampling:
        def of_chosen(values: list[float] | list[int] | list[bool], dtype: type) -> Tensor:
            return self._upload(np.array(values, dtype=dtype)[self._masked.spans[chosen]])

        return Sampling(
            temperature=of_chosen([p.temperature for p in self._params], np.float32),
            top_p=of_chosen([p.top_p for p in self._params], np.float64),
            top_k=of_chosen([p.top_k for p in self._params], np.int64),
            draw=uniform(
                of_chosen([p.seed for p in self._params], np.int64),
                self._upload(self._masked.positions[chosen]),
                of_chosen([s.stats.forwards for s in self._sequences], np.int64),
            ),
            tempered=of_chosen([RULES[p.rule].tempered for p in self._params], np.bool_),
        )

    def _of_rows(self, values: list[float] | list[int] | list[bool]) -> NDArray[Any]:
        """One value per span, spread over the M masked rows."""
        return np.array(values)[self._masked.spans]

    def _upload(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)

"""How fast a block is to be decided: what a rule with a schedule commits in each of its forwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from unmask.params import RULE_TRAITS, DecodingParams

_LAST_TIME = 1e-3  # Dream's eps: the time that its schedule ends at


@dataclass(frozen=True, slots=True)
class Pace:
    """``quota``: tokens to commit in this forward. ``share``: the chance of each masked position to be committed."""

    quota: int
    share: float = 1.0


AT_ONCE = Pace(1)


def pace(params: DecodingParams, length: int, masked: int, step: int) -> Pace:
    """The pace of forward ``step`` of a block of ``length`` positions, ``masked`` of them masked."""
    return _PACES[RULE_TRAITS[params.rule].pace](params, length, masked, step)


def even(steps: int, length: int, step: int) -> int:
    """An even split of ``length`` over ``steps``, the remainder first (LLaDA, LLaDA2, SDAR)."""
    return length // steps + (step < length % steps)


def _even(params: DecodingParams, length: int, masked: int, step: int) -> Pace:
    return Pace(even(min(params.steps, length), length, step))


def _owed(params: DecodingParams, length: int, masked: int, step: int) -> Pace:
    """What an even split would have committed by now and was not; what is refused is owed in the next forward."""
    steps = min(params.steps, length)
    due = sum(even(steps, length, n) for n in range(min(step + 1, steps)))
    return Pace(max(due - (length - masked), 1))


def _annealed(params: DecodingParams, length: int, masked: int, step: int) -> Pace:
    """Time runs from 1 to nearly 0; each forward commits the share of masks that the time passed calls for (Dream).

    In float32, as the reference has it: the quota is cut to an integer, so rounding shows.
    """
    steps = min(params.steps, length)
    if step >= steps - 1:
        return Pace(masked)
    times = np.linspace(1, _LAST_TIME, steps + 1, dtype=np.float32)
    share = np.float32(1) - times[step + 1] / times[step]
    return Pace(int(np.float32(masked) * share), float(share))


def _fixed(params: DecodingParams, length: int, masked: int, step: int) -> Pace:
    return Pace(params.min_commits)


def _free(params: DecodingParams, length: int, masked: int, step: int) -> Pace:
    return AT_ONCE


_PACES: dict[str, Callable[[DecodingParams, int, int, int], Pace]] = {
    "free": _free,
    "even": _even,
    "owed": _owed,
    "annealed": _annealed,
    "fixed": _fixed,
}

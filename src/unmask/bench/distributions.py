"""Distributions as the command line writes them: ``64``, ``uniform:16:256``, ``lognormal:200:1.2``, ..."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.errors import InvalidValueError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """A law of positive numbers. ``kind`` is a key of ``_KINDS``, whose parameters come in the order given there."""

    kind: str
    parameters: tuple[float, ...]

    def draw(self, count: int, random: np.random.Generator) -> Floats:
        """``count`` independent draws [count]."""
        return _KINDS[self.kind][1](random, count, *self.parameters)

    @classmethod
    def parse(cls, text: str, param: str) -> Distribution:
        """Read ``text``. Raises ``InvalidValueError`` naming ``param``."""
        kind, *words = text.split(":") if ":" in text else ("constant", text)
        try:
            values = tuple(float(word) for word in words)
        except ValueError:
            values = ()
        known = kind in _KINDS and len(values) == len(_KINDS[kind][0])
        if not known or not all(math.isfinite(value) and value > 0 for value in values):
            raise InvalidValueError(f"'{param}' is {text!r}, which is no distribution.", hint=_HINT, param=param)
        if (kind == "uniform" and values[0] > values[1]) or (kind == "geometric" and values[0] < 1):
            raise InvalidValueError(f"'{param}' is {text!r}, which holds no value.", hint=_HINT, param=param)
        return cls(kind, values)


def _uniform(random: np.random.Generator, count: int, low: float, high: float) -> Floats:
    return random.uniform(low, high, count)


def _geometric(random: np.random.Generator, count: int, mean: float) -> Floats:
    return random.geometric(1 / mean, count).astype(np.float64)


def _lognormal(random: np.random.Generator, count: int, mean: float, variation: float) -> Floats:
    """``variation``: standard deviation over mean."""
    variance = math.log1p(variation**2)
    return random.lognormal(math.log(mean) - variance / 2, math.sqrt(variance), count)


def _constant(random: np.random.Generator, count: int, value: float) -> Floats:
    return np.full(count, value)


_KINDS: dict[str, tuple[tuple[str, ...], Callable[..., Floats]]] = {
    "constant": (("VALUE",), _constant),
    "uniform": (("LOW", "HIGH"), _uniform),
    "geometric": (("MEAN",), _geometric),
    "lognormal": (("MEAN", "VARIATION"), _lognormal),
}
_HINT = "Use VALUE, " + ", ".join(
    ":".join([kind, *names]) for kind, (names, _) in _KINDS.items() if kind != "constant"
)  # "constant:64" is understood too

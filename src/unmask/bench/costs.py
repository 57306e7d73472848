"""What a step costs: seconds as a linear function of what its spans hold, fitted to measured steps."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmask.bench.distributions import Floats
from unmask.bench.files import reading
from unmask.engine.step_records import Origin
from unmask.errors import InvalidValueError
from unmask.params import ModelInfo

TERMS = ("step", "span", "row", "key", "pair", "candidate")
FEATURES = len(TERMS) - 1  # a step has as many of the last five as its spans have together
_ROUNDS = 8
_HELD_UP = 4.0  # times as long as told


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per step, and for each of its spans, query rows, keys, pairs of row and key, and positions that may
    commit. None is negative.
    """

    step: float
    span: float = 0.0
    row: float = 0.0
    key: float = 0.0
    pair: float = 0.0
    candidate: float = 0.0

    def of(self, features: NDArray[np.int64]) -> Floats:
        """Seconds that each line of ``features`` [..., 5] adds to its step."""
        seconds: Floats = features @ np.array([getattr(self, term) for term in TERMS[1:]])
        return seconds


class Fit(msgspec.Struct, frozen=True):
    """How well the costs tell the seconds of the ``steps`` they were fitted to: relative errors, without their sign."""

    steps: int
    median_error: float
    p95_error: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of one model on one machine. ``request_seconds``: what a request takes outside the engine
    (HTTP, tokenizer, the way to the engine's process and back), at the client; 0 if it was not measured.
    """

    model: ModelInfo
    costs: Costs
    fit: Fit
    request_seconds: float
    threads: int
    device: str
    host: str
    version: str

    @classmethod
    def of(cls, origin: Origin, features: NDArray[np.int64], seconds: Floats, request_seconds: float) -> Calibration:
        """What steps with ``features`` [steps, 5] and ``seconds`` [steps] tell that were measured at ``origin``."""
        costs, fit = fit_costs(features, seconds)
        return cls(costs=costs, fit=fit, request_seconds=request_seconds, **msgspec.structs.asdict(origin))

    def save(self, path: str) -> None:
        """Write it as JSON."""
        Path(path).write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n")

    @classmethod
    def load(cls, path: str) -> Calibration:
        """Read what ``save`` wrote. Raises ``InvalidValueError`` naming file and field."""
        try:
            with reading(path):
                found = msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidValueError(
                f"{path} holds no measured costs: {error}.", hint="`unmask simulate --calibrate FILE MODEL` writes it."
            ) from None
        negative = [term for term in TERMS if getattr(found.costs, term) < 0]
        if negative or found.costs.step + found.costs.span + found.costs.row <= 0 or found.request_seconds < 0:
            field = f"costs.{negative[0]}" if negative else "costs" if found.request_seconds >= 0 else "request_seconds"
            raise InvalidValueError(f"{path}: '{field}' must be positive seconds.", hint="Calibrate anew.", param=field)
        return found


def fit_costs(features: NDArray[np.int64], seconds: Floats) -> tuple[Costs, Fit]:
    """The costs that tell ``seconds`` [steps] best, and together exactly; none of them is negative.

    ``features`` [steps, 5] are summed over each step's spans. Best is the least sum of squared errors, each relative to
    what the costs tell: so they tell the mean of steps that are alike. (Errors relative to what was measured would tell
    less than that, the more the noisier the machine.) Therefore it is solved in rounds. A step that took many times as
    long as told was held up by something else, and bends nothing.
    """
    terms = np.column_stack([np.ones(len(seconds)), features])
    told = seconds
    for _ in range(_ROUNDS):
        best = _least_squares(terms / told[:, None], np.minimum(seconds / told, _HELD_UP))
        told = np.maximum(terms @ best, seconds.min())
    best *= seconds.sum() / (terms @ best).sum()
    errors = np.abs(terms @ best / seconds - 1)
    fit = Fit(len(seconds), float(np.median(errors)), float(np.percentile(errors, 95)))
    return Costs(**dict(zip(TERMS, best.tolist(), strict=True))), fit


def _least_squares(terms: Floats, target: Floats) -> Floats:
    """The factors [6] of ``terms`` [steps, 6], none negative, whose product is nearest to ``target`` [steps].

    There are so few terms that all their subsets can be tried: the best plain solution among those without a negative
    factor is the exact answer.
    """
    basis, few = np.linalg.qr(terms)  # as many rows as terms tell all that matters of any number of steps
    wanted = target @ basis
    best, least = np.zeros(len(TERMS)), np.inf
    for size in range(1, len(TERMS) + 1):
        for chosen in combinations(range(len(TERMS)), size):
            solution, *_ = np.linalg.lstsq(few[:, chosen], wanted, rcond=None)
            error = float(np.sum((few[:, chosen] @ solution - wanted) ** 2))
            if error < least and (solution >= 0).all():
                best, least = np.zeros(len(TERMS)), error
                best[list(chosen)] = solution
    return best

"""What is asked of the engine: who arrives when, and how large each request is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unmask.bench.distributions import Distribution, Floats
from unmask.bench.trace import TraceRow
from unmask.bench.trajectory import Shape
from unmask.errors import InvalidValueError
from unmask.terms import Terms

MOST_SHAPES = 1000  # that a generated workload draws from: finding the windows of one takes milliseconds


@dataclass(frozen=True)
class Workload:
    """N requests in the order of their ``times`` [N], seconds from 0 on, ``rate`` a second on average.

    ``shapes`` are the different sizes; request n has ``shapes[which[n]]``. ``deadlines`` [N] are seconds from the
    arrival on, infinite without one. ``batch`` [N]: those that give way to all others.
    """

    times: Floats
    rate: float
    shapes: list[Shape]
    which: NDArray[np.int64]
    deadlines: Floats
    batch: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.times)

    @property
    def output_tokens(self) -> NDArray[np.int64]:
        """Output tokens of each request [N]."""
        return np.array([shape.output_tokens for shape in self.shapes])[self.which]

    def with_deadlines(self, deadline: Distribution, random: np.random.Generator) -> Workload:
        """The same, and a deadline drawn for each request that has none."""
        drawn = deadline.draw(len(self), random)
        return replace(self, deadlines=np.where(np.isinf(self.deadlines), drawn, self.deadlines))

    @property
    def terms(self) -> list[Terms]:
        """The priority and the deadline of each request."""
        return [
            Terms(priority="batch" if batch else "interactive", deadline=None if math.isinf(deadline) else deadline)
            for batch, deadline in zip(self.batch.tolist(), self.deadlines.tolist(), strict=True)
        ]

    @classmethod
    def of_trace(cls, rows: list[TraceRow], pace: Distribution | None, random: np.random.Generator) -> Workload:
        """The requests of a trace, at its times. ``pace``: tokens per forward, where it does not tell forwards."""
        numbers: dict[Shape, int] = {}
        which = [numbers.setdefault(shape, len(numbers)) for shape in shapes_like(rows, pace, random)]
        times = np.array([row.time for row in rows]) - rows[0].time
        return cls(
            times,
            (len(rows) - 1) / times[-1] if times[-1] > 0 else np.inf,
            list(numbers),
            np.array(which),
            np.array([np.inf if row.deadline_ms is None else row.deadline_ms / 1000 for row in rows]),
            np.array([row.priority == "batch" for row in rows]),
        )

    @classmethod
    def of_shapes(cls, times: Floats, rate: float, shapes: list[Shape], random: np.random.Generator) -> Workload:
        """Requests at ``times``, meant to be ``rate`` a second, each of one of ``shapes``, all equally likely."""
        count = len(times)
        which = random.integers(0, len(shapes), count)
        return cls(times, rate, shapes, which, np.full(count, np.inf), np.zeros(count, dtype=np.bool_))


def shapes_like(rows: list[TraceRow], pace: Distribution | None, random: np.random.Generator) -> list[Shape]:
    """The size of each request of a trace."""
    if pace is None and any(row.forwards is None for row in rows):
        raise InvalidValueError(
            "The trace does not tell how many forwards its requests took.",
            hint="Give --tokens-per-forward, or a field 'forwards'.",
            param="tokens_per_forward",
        )
    paces = np.ones(len(rows)) if pace is None else pace.draw(len(rows), random)
    return [
        Shape(
            row.prompt_tokens,
            row.max_tokens or row.output_tokens,
            row.output_tokens,
            row.forwards or _forwards(row.output_tokens, paces[number]),
        )
        for number, row in enumerate(rows)
    ]


def draw_shapes(
    count: int,
    prompt: Distribution,
    output: Distribution,
    pace: Distribution,
    max_tokens: int | None,
    context_length: int,
    random: np.random.Generator,
) -> list[Shape]:
    """At most ``MOST_SHAPES`` sizes, from the distributions of prompt tokens, output tokens, and tokens per forward.

    Output is cut at ``max_tokens``, or each request allows what it gets; both are cut so that the context holds them.
    """
    count = min(count, MOST_SHAPES)
    shapes = []
    for prompt_length, length, per_forward in zip(
        prompt.draw(count, random), output.draw(count, random), pace.draw(count, random), strict=True
    ):
        tokens = max(1, round(length))
        allowed = min(max_tokens or tokens, context_length - 1)
        tokens = min(tokens, allowed)
        prompt_tokens = min(max(1, round(prompt_length)), context_length - allowed)
        shapes.append(Shape(prompt_tokens, allowed, tokens, _forwards(tokens, per_forward)))
    return shapes


def _forwards(tokens: int, per_forward: float) -> int:
    return max(1, round(tokens / per_forward))

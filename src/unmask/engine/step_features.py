"""What a step holds, in the five numbers that say most about how long it takes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unmask.decoding.canvas import Canvas
from unmask.decoding.windows import Segment, Window
from unmask.engine.scheduler import Span

Features = tuple[int, int, int, int, int]


def span_features(window: Window, canvas: Canvas) -> Features:
    """Span, query rows, keys, pairs of row and key, positions that may commit."""
    rows, keys = window.count, window.keys
    return 1, rows, keys, rows * keys, sum(_open(segment, canvas) for segment in window.segments)


def step_features(spans: Iterable[Span]) -> Features:
    """The sums over ``spans``, on none of which has been decided yet; one of a guided request counts twice."""
    total = [0, 0, 0, 0, 0]
    for span in spans:
        streams = span.sequence.streams
        for place, number in enumerate(span_features(span.window, span.sequence.canvas)):
            total[place] += streams * number
    return total[0], total[1], total[2], total[3], total[4]


def _open(segment: Segment, canvas: Canvas) -> int:
    if segment.revises:
        return segment.reach - max(segment.start, canvas.prompt_length)
    return int(np.count_nonzero(canvas.masked[segment.start : segment.reach]))

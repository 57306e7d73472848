"""Which keys the rows of spans see: all that their windows hold, up to a bound for each row, and shadows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.engine.scheduler import Span

Mask = NDArray[np.bool_]


def seen_slots(span: Span) -> NDArray[np.int64]:
    """The cache slots [K] that ``span`` sees, those of its shadows last."""
    held, shadows = span.sequence.held, len(span.window.shadows)
    slots = held.slots(span.unconditional)[: span.window.key_end]
    return np.concatenate([slots, held.shadow_slots(shadows)]) if shadows else slots


def seen_keys(spans: list[Span]) -> Mask | None:
    """Which keys each row sees [S, Q, K], the longest span last; None if every row sees every key."""
    key_count = spans[-1].window.keys
    if all(span.window.visible is None and span.window.key_end == key_count for span in spans):
        return None
    bounds = np.empty((len(spans), spans[0].rows, 1), dtype=np.int64)
    for line, span in zip(bounds, spans, strict=True):
        line[:, 0] = span.window.key_end
        if span.window.visible is not None:
            line[: len(span.window.visible), 0] = span.window.visible
    mask: Mask = np.arange(key_count) < bounds
    for line, span in zip(mask, spans, strict=True):
        if count := len(span.window.shadows):
            number = np.arange(count)
            line[number - count, span.window.shadows] = False
            line[number - count, span.window.key_end + number] = True
    return mask


def recent_keys(spans: list[Span], mask: Mask | None, width: int) -> Mask | None:
    """``mask`` for layers that look back ``width`` positions: from a row itself, or from the canvas it belongs to."""
    oldest = np.empty((len(spans), spans[0].rows, 1), dtype=np.int64)
    for line, span in zip(oldest, spans, strict=True):
        start = span.window.end if span.window.canvas_start is None else span.window.canvas_start
        line[:, 0] = np.minimum(span.window.positions, start) - width + 1
    if (oldest <= 0).all():
        return None
    recent: Mask = np.arange(spans[-1].window.keys) >= oldest
    return recent if mask is None else recent & mask

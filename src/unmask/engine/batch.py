"""From the spans of a step to the rows of one forward.

Spans are laid out one after another, those with equal row counts next to each other, so that each attention
group is a plain slice of the rows. All index arithmetic is done in numpy, before anything goes to the device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.engine.scheduler import Span
from unmask.engine.tiled_groups import tiled_group
from unmask.engine.visibility import Mask, recent_keys, seen_keys, seen_slots
from unmask.models.base import AttentionGroup, StepContext
from unmask.models.linear import AdaptedRows

# Spans share an attention call while padding their keys to the longest wastes no more than this share ...
_MOST_PADDING = 1 / 3
# ... and while gathering their keys costs less than a call of their own. Measured on a CPU: 16 spans of 200 keys take
# 1.2 ms gathered and 1.8 ms each on its own view of the cache; of 700 keys 6.6 and 3.2 ms.
_LONG_KEYS = 320

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Layout:
    """``spans`` in row order, unconditional ones included; span i has the rows from ``first_rows[i]`` on."""

    spans: list[Span]
    first_rows: list[int]

    @property
    def total_rows(self) -> int:
        """Number of rows R."""
        return self.first_rows[-1]


@dataclass(slots=True)
class Candidates:
    """The M positions that may commit: their span, segment, offset in the segment, position, predicting row.

    ``segments`` numbers all segments of the step; ``rows`` from R on mean "the kept row of span ``rows - R``" (logit
    shift). ``unconditional_rows`` predict the same positions without the prompt, where the request is guided;
    elsewhere they are -1. ``decided`` is the token that stands at a position and may be edited; -1 where it is masked.
    """

    spans: Ints
    segments: Ints
    offsets: Ints
    positions: Ints
    rows: Ints
    unconditional_rows: Ints
    decided: Ints


def lay_out(spans: list[Span]) -> Layout:
    """Add the unconditional spans of guided requests; order all by row count, then by key count."""
    unconditional = [
        Span(span.sequence, replace(span.window, segments=[]), unconditional=True)
        for span in spans
        if span.sequence.params.cfg_scale
    ]
    ordered = sorted([*spans, *unconditional], key=lambda span: (span.rows, span.window.keys))
    first_rows = [0]
    for span in ordered:
        first_rows.append(first_rows[-1] + span.rows)
    return Layout(ordered, first_rows)


def step_context(layout: Layout, device: torch.device, sliding_window: int = 0, *, tiled: bool = False) -> StepContext:
    """The rows of ``layout`` and who sees what; some layers look back ``sliding_window`` positions, if it is not 0.

    ``tiled``: for a model that is.
    """
    tokens, positions, slots = (np.concatenate(parts) for parts in zip(*map(_rows, layout.spans), strict=True))
    canvas, conditioned = _canvas_rows(layout, device)
    if tiled:
        spans = zip(layout.spans, layout.first_rows, strict=False)
        groups = [tiled_group(span, first_row, device, sliding_window) for span, first_row in spans]
    else:
        groups = [_group(layout, first, last, device, sliding_window) for first, last in _groups(layout.spans)]
    return StepContext(
        token_ids=torch.from_numpy(tokens).to(device),
        positions=torch.from_numpy(positions).to(device),
        write_slots=torch.from_numpy(slots).to(device),
        groups=groups,
        adapted=_adapted(layout, device),
        canvas=canvas,
        conditioned=conditioned,
    )


def _rows(span: Span) -> tuple[Ints, Ints, Ints]:
    """Token, position and slot of each row of ``span``: the window's, then the shadows'."""
    sequence, shadows = span.sequence, span.window.shadows
    places, positions = span.window.places, span.window.positions
    tokens, slots = sequence.tokens(span.unconditional)[places], sequence.held.slots(span.unconditional)[places]
    if not len(shadows):
        return tokens, positions, slots
    masks = np.full(len(shadows), sequence.canvas.mask_id)
    rows = (tokens, masks), (positions, shadows), (slots, sequence.held.shadow_slots(len(shadows)))
    tokens, positions, slots = map(np.concatenate, rows)
    return tokens, positions, slots


def _adapted(layout: Layout, device: torch.device) -> list[AdaptedRows]:
    """The rows of each adapter that takes part."""
    rows: dict[int, list[Ints]] = {}
    for span, first_row in zip(layout.spans, layout.first_rows, strict=False):
        if span.sequence.adapter is not None:
            rows.setdefault(span.sequence.adapter, []).append(np.arange(first_row, first_row + span.rows))
    return [AdaptedRows(n, torch.from_numpy(np.concatenate(parts)).to(device)) for n, parts in rows.items()]


def _canvas_rows(layout: Layout, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
    """Which rows are canvas rows, and which of those are conditioned, in models that make the difference."""
    windows = [span.window for span in layout.spans]
    if all(window.canvas_start is None for window in windows):
        return None, None
    positions = [(window, window.positions) for window in windows]
    canvas = np.concatenate([at >= cast(int, window.canvas_start) for window, at in positions])
    conditioned = canvas & np.repeat([window.conditioned for window in windows], [len(at) for _, at in positions])
    return torch.from_numpy(canvas).to(device), torch.from_numpy(conditioned).to(device)


def candidates(layout: Layout, shifted: bool) -> Candidates:
    """Every position of every segment that may commit, and the row whose logits predict it."""
    spans: list[int] = []
    counts: list[int] = []
    offsets: list[Ints] = []
    rows: list[Ints] = []
    positions: list[Ints] = []
    decided: list[Ints] = []
    left = _left_rows(layout) if shifted else []
    for index, (span, first_row) in enumerate(zip(layout.spans, layout.first_rows, strict=False)):
        canvas, window = span.sequence.canvas, span.window
        for segment in window.segments:
            open_ = canvas.masked[segment.start : segment.reach]
            offset = np.flatnonzero(open_)
            if segment.revises:
                offset = np.arange(max(canvas.prompt_length - segment.start, 0), len(open_))
            position = offset + segment.start
            row = window.rows_of(position - shifted) + first_row
            if row[0] < first_row:
                row[0] = left[index]
            if len(window.shadows):
                row = np.where(open_[offset], row, window.shadow_rows_of(position) + first_row)
            spans.append(index)
            counts.append(len(offset))
            offsets.append(offset)
            positions.append(position)
            rows.append(row)
            decided.append(np.where(open_[offset], -1, canvas.tokens[position]))
    times = np.array(counts, dtype=np.int64)
    span_of_row, row_of_row = np.repeat(np.array(spans, dtype=np.int64), times), _joined(rows)
    return Candidates(
        spans=span_of_row,
        segments=np.repeat(np.arange(len(counts)), times),
        offsets=_joined(offsets),
        positions=_joined(positions),
        rows=row_of_row,
        unconditional_rows=_unconditional_rows(layout, span_of_row, row_of_row, left),
        decided=_joined(decided),
    )


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _left_rows(layout: Layout) -> list[int]:
    """For each span the row left of its window: a kept one; a draft's may be one that its parent has in this step."""
    spans = layout.spans
    places = {(id(span.sequence), span.unconditional): place for place, span in enumerate(spans)}

    def before(place: int) -> int:
        parent = spans[place].sequence.parent
        if parent is None:
            return layout.total_rows + place
        return after(places[id(parent), spans[place].unconditional])

    def after(place: int) -> int:
        window = spans[place].window
        moved = window.left - window.start
        return layout.first_rows[place] + moved if moved >= 0 else before(place)

    return [before(place) for place in range(len(spans))]


def _unconditional_rows(layout: Layout, spans: Ints, rows: Ints, left: list[int]) -> Ints:
    twins = {id(span.sequence): place for place, span in enumerate(layout.spans) if span.unconditional}
    if not twins:
        return np.full(len(rows), -1)
    twin_of = np.array([twins.get(id(span.sequence), -1) for span in layout.spans])[spans]
    first_rows = np.array(layout.first_rows)
    in_window = rows + first_rows[twin_of] - first_rows[spans]
    own = (rows >= first_rows[spans]) & (rows < first_rows[spans + 1])
    return np.where(twin_of < 0, -1, np.where(own, in_window, np.array(left)[twin_of] if left else -1))


def _groups(spans: list[Span]) -> list[tuple[int, int]]:
    """Cut the ordered spans into runs of equal row count with few keys and little padding among them."""
    groups = []
    first = keys = 0
    for index, span in enumerate(spans):
        count = span.window.keys
        keys += count
        padded = (index + 1 - first) * count  # key counts ascend, so this span's is the longest
        if index > first and (
            span.rows != spans[first].rows or count > _LONG_KEYS or padded - keys > _MOST_PADDING * padded
        ):
            groups.append((first, index))
            first, keys = index, count
    return [*groups, (first, len(spans))]


def _group(layout: Layout, first: int, last: int, device: torch.device, sliding_window: int) -> AttentionGroup:
    spans = layout.spans[first:last]
    rows = slice(layout.first_rows[first], layout.first_rows[last])
    mask = seen_keys(spans)
    sliding = recent_keys(spans, mask, sliding_window) if sliding_window else None
    return AttentionGroup(rows, _keys(spans, device), _upload(mask, device), _upload(sliding, device))


def _keys(spans: list[Span], device: torch.device) -> Tensor | slice:
    """The cache slots that ``spans`` see: a slice for one span with adjacent slots, else one padded line a span."""
    seen = [seen_slots(span) for span in spans]
    if len(spans) == 1:
        (slots,) = seen
        if (np.diff(slots) == 1).all():
            return slice(int(slots[0]), int(slots[-1]) + 1)
    keys = np.empty((len(spans), len(seen[-1])), dtype=np.int64)
    for line, slots in zip(keys, seen, strict=True):
        line[: len(slots)] = slots
        line[len(slots) :] = slots[0]  # masked, and its own: a NaN there would spread even through a zero weight
    return torch.from_numpy(keys).to(device)


def _upload(mask: Mask | None, device: torch.device) -> Tensor | None:
    """``mask`` [S, Q, K] as attention takes it, [S, 1, Q, K]."""
    return None if mask is None else torch.from_numpy(mask).unsqueeze(1).to(device)

"""From the spans of a step to the tensors of one forward.

Spans are laid out one after another, those with equal row counts next to each other, so that each attention
group is a plain slice of the rows. All index arithmetic is done in numpy and crosses to the device once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.engine.scheduler import Span
from unmask.models.base import AttentionGroup, StepContext

# Spans share an attention call while padding their keys to the longest wastes no more than this share.
_MOST_PADDING = 1 / 3

Ints = NDArray[np.int64]


@dataclass(slots=True)
class Layout:
    """``spans`` in row order, unconditional ones included; ``first_rows[i]`` is where span i begins."""

    spans: list[Span]
    first_rows: list[int]


@dataclass(slots=True)
class MaskedRows:
    """The M masked positions that may commit: their span, segment, offset in the segment, position, predicting row.

    ``segments`` numbers all segments of the step; ``rows`` beyond the step's R rows mean "the kept row of span
    ``rows - R``" (logit shift). ``unconditional_rows`` predict the same positions without the prompt, where the
    request is guided; elsewhere they are -1. None if no request is.
    """

    spans: Ints
    segments: Ints
    offsets: Ints
    positions: Ints
    rows: Ints
    unconditional_rows: Ints | None


def lay_out(spans: list[Span]) -> Layout:
    """Add the unconditional spans of guided requests; order all by row count, then by key count."""
    unconditional = [
        Span(span.sequence, replace(span.window, segments=[]), unconditional=True)
        for span in spans
        if span.sequence.params.cfg_scale
    ]
    ordered = sorted([*spans, *unconditional], key=lambda span: (span.rows, span.window.key_end))
    first_rows = [0]
    for span in ordered:
        first_rows.append(first_rows[-1] + span.rows)
    return Layout(ordered, first_rows)


def step_context(layout: Layout, device: torch.device) -> StepContext:
    """The rows of ``layout`` and who sees what."""
    windows = [(span.sequence, slice(span.window.start, span.window.end), span.unconditional) for span in layout.spans]
    tokens = np.concatenate([sequence.tokens(stream)[rows] for sequence, rows, stream in windows])
    positions = np.concatenate([np.arange(rows.start, rows.stop) for _, rows, _ in windows])
    slots = np.concatenate([sequence.slots(stream)[rows] for sequence, rows, stream in windows])
    return StepContext(
        token_ids=torch.from_numpy(tokens).to(device),
        positions=torch.from_numpy(positions).to(device),
        write_slots=torch.from_numpy(slots).to(device),
        groups=[_group(layout, first, last, device) for first, last in _groups(layout.spans)],
    )


def masked_rows(layout: Layout, shifted: bool) -> MaskedRows:
    """Every masked position of every segment, and the row whose logits predict it."""
    spans: list[int] = []
    counts: list[int] = []
    offsets: list[Ints] = []
    positions: list[Ints] = []
    rows: list[Ints] = []
    total_rows = layout.first_rows[-1]
    for index, (span, first_row) in enumerate(zip(layout.spans, layout.first_rows, strict=False)):
        masked, window = span.sequence.canvas.masked, span.window
        for segment in window.segments:
            offset = np.flatnonzero(masked[segment.start : segment.end])
            position = offset + segment.start
            row = position + (first_row - window.start - shifted)
            if shifted and len(row) and row[0] < first_row:
                row[0] = total_rows + index if window.start else first_row
            spans.append(index)
            counts.append(len(offset))
            offsets.append(offset)
            positions.append(position)
            rows.append(row)
    span_of_row = np.repeat(spans, counts)
    row_of_row = np.concatenate(rows)
    return MaskedRows(
        spans=span_of_row,
        segments=np.repeat(np.arange(len(counts)), counts),
        offsets=np.concatenate(offsets),
        positions=np.concatenate(positions),
        rows=row_of_row,
        unconditional_rows=_unconditional_rows(layout, span_of_row, row_of_row),
    )


def _unconditional_rows(layout: Layout, spans: Ints, rows: Ints) -> Ints | None:
    twins = {span.sequence.request_id: index for index, span in enumerate(layout.spans) if span.unconditional}
    if not twins:
        return None
    total_rows = layout.first_rows[-1]
    twin_of = np.array([twins.get(span.sequence.request_id, -1) for span in layout.spans])[spans]
    shift = np.array(layout.first_rows)[twin_of] - np.array(layout.first_rows)[spans]
    return np.where(twin_of < 0, -1, np.where(rows < total_rows, rows + shift, total_rows + twin_of))


def _groups(spans: list[Span]) -> list[tuple[int, int]]:
    """Cut the ordered spans into runs of equal row count with little padding among their keys."""
    groups = []
    first = 0
    keys = 0
    for index, span in enumerate(spans):
        window = span.window
        keys += window.key_end
        padded = (index + 1 - first) * window.key_end  # key counts ascend, so this span's is the longest
        if span.rows != spans[first].rows or padded - keys > _MOST_PADDING * padded:
            groups.append((first, index))
            first, keys = index, window.key_end
    return [*groups, (first, len(spans))]


def _group(layout: Layout, first: int, last: int, device: torch.device) -> AttentionGroup:
    spans = layout.spans[first:last]
    rows = slice(layout.first_rows[first], layout.first_rows[last])
    key_count = spans[-1].window.key_end
    key_slots = np.zeros((len(spans), key_count), dtype=np.int64)
    for line, span in zip(key_slots, spans, strict=True):
        line[: span.window.key_end] = span.sequence.slots(span.unconditional)[: span.window.key_end]
    mask: Tensor | None = None
    if any(span.window.visible is not None or span.window.key_end < key_count for span in spans):
        bounds = np.empty((len(spans), spans[0].rows, 1), dtype=np.int64)
        for line, span in zip(bounds, spans, strict=True):
            visible = span.window.visible
            line[:, 0] = span.window.key_end if visible is None else visible
        mask = torch.from_numpy(np.arange(key_count) < bounds).unsqueeze(1).to(device)
    return AttentionGroup(rows, torch.from_numpy(key_slots).to(device), mask)

"""Shifted logits: a window's first position is predicted by the hidden row left of it, of a forward before."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.engine.batch import Layout
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence
from unmask.models.base import Model


class LeftRows:
    """The row left of each stream's window, kept under the page that holds its position."""

    def __init__(self, model: Model, pages: int) -> None:
        self._rows = torch.zeros(pages, model.spec.shape.hidden, dtype=model.dtype, device=model.device)

    def append_to(self, hidden: Tensor, layout: Layout) -> Tensor:
        """``hidden`` [R, H], then each span's kept row; from now on the one is kept that its coming windows need."""
        lefts = [span.page_of(max(span.window.start - 1, 0)) for span in layout.spans]
        pages = torch.tensor(lefts, device=hidden.device)
        extended = torch.cat([hidden, self._rows[pages]])
        new = [
            (span.page_of(span.window.left), first_row + span.window.left - span.window.start)
            for span, first_row in zip(layout.spans, layout.first_rows, strict=False)
            if span.window.left >= span.window.start
        ]
        if new:
            pages, rows = torch.tensor(new, device=hidden.device).unbind(dim=1)
            self._rows[pages] = hidden[rows]
        return extended

    def adopt(self, draft: Span, sequence: Sequence, unconditional: bool) -> None:
        """Keep for ``sequence`` the row that its ``draft`` left behind, if it did."""
        left = draft.window.left
        if left >= draft.window.start:
            source, target = (one.held.page_of(left, unconditional) for one in (draft.sequence, sequence))
            self._rows[target] = self._rows[source]

"""What a model that is computed elsewhere is asked in a step: for each span its canvas, and all that this sees."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from unmask.engine.batch import Layout
from unmask.engine.scheduler import Span
from unmask.engine.sequence import Sequence
from unmask.errors import UnmaskError
from unmask.models.logits_worker.call import CanvasCall
from unmask.models.logits_worker.protocol import Question
from unmask.models.logits_worker.trail import Trail


class CanvasCalls:
    """The calls of one step after the other. ``remembering``: the model builds on its last logits of a canvas."""

    def __init__(self, *, remembering: bool) -> None:
        self._remembering = remembering
        self._trails: WeakKeyDictionary[Sequence, Trail] = WeakKeyDictionary()
        self._asked: list[tuple[Sequence, CanvasCall]] = []

    def of(self, layout: Layout) -> list[CanvasCall]:
        """Pieces of prefills are nothing to ask about."""
        rows = zip(layout.spans, layout.first_rows, strict=False)
        self._asked = [
            (span.sequence, self._call(span, first_row))
            for span, first_row in rows
            if span.window.segments or span.unconditional
        ]
        return [call for _, call in self._asked]

    def fault(self, sequence: Sequence) -> UnmaskError | None:
        """Why ``sequence`` got no logits in this step; None if it did."""
        return next((call.fault for owner, call in self._asked if owner is sequence and call.fault is not None), None)

    def _call(self, span: Span, first_row: int) -> CanvasCall:
        sequence, window = span.sequence, span.window
        start = sequence.canvas.prompt_length if window.canvas_start is None else window.canvas_start
        tokens = sequence.tokens(span.unconditional)[: window.key_end].astype(np.int32)
        question = Question(tokens, window.key_end - start)
        if not self._remembering:
            return CanvasCall(question, first_row + start - window.start)
        question = Question(tokens, question.canvas, window.segments[0].temperature, window.conditioned)
        trail = self._trails.setdefault(sequence, Trail())
        return CanvasCall(question, first_row + start - window.start, trail)

"""What one step asks of a model that is computed elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.errors import UnmaskError
from unmask.models.logits_worker.protocol import Question
from unmask.models.logits_worker.trail import Trail


@dataclass(slots=True)
class CanvasCall:
    """The canvas of one span: the ``question`` is about its rows, the first of which is ``first_row`` of the step.

    ``trail``: that of the request, in models that remember their last logits. ``fault``: why it got no logits.
    """

    question: Question
    first_row: int
    trail: Trail | None = None
    fault: UnmaskError | None = None

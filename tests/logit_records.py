"""What the head gives for every candidate position of every forward, by request: taken down beside the step loop."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from unmask.engine import runner as runner_module
from unmask.engine.loop import EngineLoop


@dataclass
class Row:
    """The logits [V] for ``position`` in a request's forward number ``forward``, and the canvas before it."""

    forward: int
    position: int
    logits: Tensor
    canvas: list[int]


@contextmanager
def recorded_logits(loop: EngineLoop):
    """Gives the rows by request id, as they come; in order of forward and position."""
    rows: dict[str, list[Row]] = {}
    runner, plain = loop._runner, (loop._runner._logits, runner_module.candidates)
    latest: list = []

    def candidates(layout, shifted):
        latest[:] = [layout, plain[1](layout, shifted)]
        return latest[1]

    def logits(part, hidden):
        result = plain[0](part, hidden)
        layout, open_ = latest
        for place, row in zip(part.where.tolist(), result, strict=True):
            sequence = layout.spans[open_.spans[place]].sequence
            canvas = sequence.canvas.tokens.tolist()
            record = Row(sequence.stats.forwards, int(open_.positions[place]), row.clone(), canvas)
            rows.setdefault(sequence.request_id, []).append(record)
        return result

    runner._logits, runner_module.candidates = logits, candidates
    try:
        yield rows
    finally:
        runner._logits, runner_module.candidates = plain

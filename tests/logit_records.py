"""What the head gives for every candidate position of every forward, by request: taken down beside the step loop."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor

from unmask.engine import runner as runner_module
from unmask.engine.loop import EngineLoop


@dataclass
class Row:
    """The logits [V] for ``position`` in a request's forward number ``forward``, and the score of its proposal."""

    forward: int
    position: int
    logits: Tensor
    score: float = 0.0


@contextmanager
def recorded_logits(loop: EngineLoop):
    """Gives the rows by request id, as they come; in order of forward and position."""
    rows: dict[str, list[Row]] = {}
    runner, plain = loop._runner, (loop._runner._logits, runner_module.candidates, runner_module.propose)
    latest: list = []
    of_part: list[Row] = []

    def candidates(layout, shifted):
        latest[:] = [layout, plain[1](layout, shifted)]
        return latest[1]

    def logits(part, hidden):
        result = plain[0](part, hidden)
        layout, open_ = latest
        of_part.clear()
        for place, row in zip(part.where.tolist(), result, strict=True):
            sequence = layout.spans[open_.spans[place]].sequence
            of_part.append(Row(sequence.stats.forwards, int(open_.positions[place]), row.clone()))
            rows.setdefault(sequence.request_id, []).append(of_part[-1])
        return result

    def propose(*arguments):
        proposals = plain[2](*arguments)
        for row, score in zip(of_part, proposals.score.tolist(), strict=True):
            row.score = score
        return proposals

    runner._logits, runner_module.candidates, runner_module.propose = logits, candidates, propose
    try:
        yield rows
    finally:
        runner._logits, runner_module.candidates, runner_module.propose = plain

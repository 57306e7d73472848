"""Canvas frames on the wire, the same in every dialect but for what they are wrapped in."""

from __future__ import annotations

from collections import Counter

import msgspec

from unmask.answers.answer import AnswerDelta
from unmask.answers.cells import Cells
from unmask.events import Frame, RequestStats


class CanvasFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The canvas after one step. Never part of the answer.

    ``cells``: each cell's text, null while masked; ``tail`` more of them are masked and in blocks that are not begun.
    ``masked``: all that are masked. ``step``: forwards so far, ``block``: blocks begun. The rest is as ``Frame`` has
    it, with null for what is not known.
    """

    seq: int
    step: int
    block: int
    block_length: int
    first_block: int
    cells: list[str | None]
    masked: int
    tail: int
    committed: int
    end: int | None
    decided: list[int]
    confidence: list[float | None]
    guesses: list[str | None]
    edited: list[int]
    type: str = "canvas"
    v: int = 1

    @classmethod
    def of(cls, seq: int, frame: Frame, stats: RequestStats, cells: Cells) -> CanvasFrame:
        """``frame``, the ``seq``-th of its request, which has cost ``stats`` so far."""
        shown = cells.decode(frame.tokens[: len(frame.tokens) - frame.tail])
        return cls(
            seq=seq,
            step=stats.forwards,
            block=stats.blocks,
            block_length=frame.block_length,
            first_block=frame.first_block,
            cells=shown,
            masked=shown.count(None) + frame.tail,
            tail=frame.tail,
            committed=frame.committed,
            end=frame.end,
            decided=frame.decided,
            confidence=[None if value < 0 else round(value, 3) for value in frame.confidence],
            guesses=cells.decode(frame.guesses),
            edited=frame.edited,
        )


class FrameExtension(msgspec.Struct, frozen=True):
    """The ``unmask`` object of a chunk that carries a canvas frame."""

    canvas: CanvasFrame


class FrameWriter:
    """Writes the canvas frames of one response, numbered for each of its answers."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._written: Counter[int] = Counter()

    def write(self, number: int, delta: AnswerDelta) -> list[FrameExtension]:
        """The frame in ``delta`` of answer ``number``, if there is one."""
        if delta.frame is None:
            return []
        self._written[number] += 1
        return [FrameExtension(CanvasFrame.of(self._written[number], delta.frame, delta.stats, self._cells))]

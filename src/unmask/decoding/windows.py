"""What a denoiser wants of the next forward: one contiguous window of positions, and the blocks that may commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Positions
from unmask.decoding.pace import Pace


@dataclass(slots=True)
class Segment:
    """Positions ``start`` .. ``end`` of a block, which may commit in this step as ``pace`` asks.

    ``activated``: at least one token must be committed (a D2F block behind an unfinished one may commit none).
    ``edits``: its decided tokens, other than the prompt's, are proposed anew and may be replaced. ``temperature``
    divides the logits before anything else looks at them.
    """

    start: int
    end: int
    pace: Pace
    activated: bool = True
    edits: bool = False
    temperature: float = 1.0


@dataclass(slots=True)
class Window:
    """Query positions ``start`` .. ``end``; keys 0 .. ``key_end`` exist for them.

    ``visible`` [end - start] int64 bounds what each row may see: keys below its value. ``None``: all of them.
    ``left``: the position whose hidden row predicts the first position of the windows to come, in families with
    shifted logits; it may lie left of this window (its row is kept already).
    ``canvas_start``: in models that encode what is final and denoise a canvas in different ways, where the canvas
    begins; it is ``conditioned`` if its last prediction is known.
    """

    start: int
    end: int
    key_end: int
    visible: NDArray[np.int64] | None
    segments: list[Segment]
    left: int
    canvas_start: int | None = None
    conditioned: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """What one forward proposed, committed or not: at ``positions`` [M] int64, ascending, the ``likeliest`` token int64
    and the proposal's ``score`` float64.
    """

    positions: NDArray[np.int64]
    likeliest: NDArray[np.int64]
    score: NDArray[np.float64]


@dataclass(slots=True)
class Decision:
    """What one forward decided: ``tokens`` become final at ``positions`` (or for now, in a canvas that is renoised).

    ``outlook`` is there for denoisers that look at it, and for requests that look ahead; otherwise None.
    """

    positions: Positions
    tokens: Positions
    outlook: Outlook | None = None


class Denoiser(Protocol):
    """The state machine of one request between forwards: which window next, and what commits mean."""

    blocks_begun: int
    """Number of canvas blocks denoised so far, the current ones included."""

    @property
    def most_rows(self) -> int:
        """The most rows that any coming window can have."""

    @property
    def most_forwards(self) -> int:
        """Forwards after which a request that has not ended is broken."""

    def next_window(self) -> Window:
        """The next forward; may open blocks for it. Call once per step, never after the end."""

    def apply(self, decision: Decision) -> int:
        """Take the decision on the forward that ``next_window`` described; the number of positions newly decided."""

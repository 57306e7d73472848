"""What a denoiser wants of the next forward: one window of positions, and the blocks that may commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.canvas import Canvas, Positions
from unmask.decoding.pace import Pace
from unmask.events import TokenLogprob


@dataclass(slots=True)
class Segment:
    """Positions ``start`` .. ``end`` of a block, which may commit in this step as ``pace`` asks.

    ``activated``: at least one token must be committed (a D2F block behind an unfinished one may commit none).
    ``revises``: its decided tokens, other than the prompt's, are looked at too, and may be replaced or masked again.
    ``temperature`` divides the logits before anything else looks at them. ``reach``: up to there, beyond ``end``,
    positions may commit if everything does; ``progress``: the share that is decided of all that the rule looks at.
    """

    start: int
    end: int
    pace: Pace
    activated: bool = True
    revises: bool = False
    temperature: float = 1.0
    reach: int = 0
    progress: float = 0.0

    def __post_init__(self) -> None:
        self.reach = max(self.reach, self.end)


@dataclass(slots=True)
class Window:
    """Query positions ``start`` .. ``end``, or of those only the ``chosen`` ones; keys 0 .. ``key_end`` exist for them.

    ``visible`` [Q] int64 bounds what each of the Q rows may see: keys below its value. ``None``: all of them.
    ``left``: the position whose hidden row predicts the first position of the windows to come, in families with
    shifted logits; it may lie left of this window (its row is kept already). -1 if none will be asked for.
    ``canvas_start``: in models that encode what is final and denoise a canvas in different ways, where the canvas
    begins; it is ``conditioned`` if its last prediction is known.
    ``shadows`` [n] int64: decided positions that get a second row each, of the mask token, which sees all keys but the
    one of its own position, and itself; so it says what the model would put there.
    """

    start: int
    end: int
    key_end: int
    visible: NDArray[np.int64] | None
    segments: list[Segment]
    left: int
    canvas_start: int | None = None
    conditioned: bool = False
    chosen: NDArray[np.int64] | None = None
    shadows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def count(self) -> int:
        """The number Q of rows, the shadows among them."""
        own = self.end - self.start if self.chosen is None else len(self.chosen)
        return own + len(self.shadows)

    @property
    def keys(self) -> int:
        """Number of keys, the shadows' own among them."""
        return self.key_end + len(self.shadows)

    @property
    def places(self) -> slice | NDArray[np.int64]:
        """What picks the rows, without shadows, out of an array over all positions."""
        return slice(self.start, self.end) if self.chosen is None else self.chosen

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of each row, shadows left out, ascending."""
        return np.arange(self.start, self.end) if self.chosen is None else self.chosen

    def rows_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which row computes each of ``positions``, all of which are computed; -1 for the one left of ``start``."""
        return positions - self.start if self.chosen is None else np.searchsorted(self.chosen, positions)

    def shadow_rows_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the shadow of each of ``positions``, where it has one."""
        return self.count - len(self.shadows) + np.searchsorted(self.shadows, positions)


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

    What stands at ``masked_again`` becomes a mask. ``outlook`` is there for denoisers that look at it, and for requests
    that look ahead; ``logprobs``, by position, if the request asked for them.
    """

    positions: Positions
    tokens: Positions
    outlook: Outlook | None = None
    logprobs: dict[int, TokenLogprob] | None = None
    masked_again: Positions = field(default_factory=list)


def shadows(canvas: Canvas, start: int, end: int) -> NDArray[np.int64]:
    """The generated positions between ``start`` and ``end`` that are decided."""
    start = max(start, canvas.prompt_length)
    return start + np.flatnonzero(~canvas.masked[start:end])


class Denoiser(Protocol):
    """The state machine of one request between forwards: which window next, and what commits mean."""

    blocks_begun: int
    """Number of canvas blocks denoised so far, the current ones included."""

    @property
    def unit(self) -> int | None:
        """What keys and values of final tokens depend on ends at the next multiple of this.

        0: they depend on all that is there, so others cannot use them. None: others with the same prompt can use those
        of the whole prompt.
        """

    @property
    def divisible(self) -> bool:
        """Whether ``prefill_rows`` may be computed in several windows."""

    @property
    def cached(self) -> int:
        """End of the keys and values that are exact and never change."""

    @property
    def final(self) -> int:
        """End of the tokens that are final and whose keys and values will be exact after the next forward."""

    @property
    def coming_end(self) -> int:
        """As far as the coming window may reach."""

    @property
    def interruptible(self) -> bool:
        """Whether ``restart`` changes nothing of what is to come."""

    @property
    def prefill_rows(self) -> int:
        """Final positions that have to be computed before anything else: the prompt, or all that was lost."""

    @property
    def uncut_room(self) -> int:
        """The least room in which a divisible prefill is computed at once, and its successors with it."""

    @property
    def most_rows(self) -> int:
        """The most rows that any coming window can have besides ``prefill_rows``."""

    @property
    def most_forwards(self) -> int:
        """Forwards after which a request that has not ended is broken."""

    def restart(self, cached: int) -> None:
        """Go on with no keys and values but those of the first ``cached`` positions, which are final."""

    def next_window(self, room: int) -> Window:
        """The next forward; may open blocks for it. Call once per step, never after the end.

        A divisible prefill of more than ``room`` rows, which are no fewer than ``most_rows``, is cut: the window then
        has no segments.
        """

    def apply(self, decision: Decision) -> int:
        """Take the decision on the forward that ``next_window`` described; the number of positions newly decided,
        less those masked again.
        """

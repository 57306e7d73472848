"""What a denoiser wants of the next forward: one contiguous window of positions, and the blocks that may commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Segment:
    """A block that may commit in this step.

    ``quota``: tokens to commit under the static rule. ``activated``: at least one token must be committed (a D2F
    block behind an unfinished one may commit none).
    """

    start: int
    end: int
    quota: int
    activated: bool


@dataclass(slots=True)
class Window:
    """Query positions ``start`` .. ``end``; keys 0 .. ``key_end`` exist for them.

    ``visible`` [end - start] int64 bounds what each row may see: keys below its value. ``None``: all of them.
    ``left``: the position whose hidden row predicts the first position of the windows to come, in families with
    shifted logits; it may lie left of this window (its row is kept already).
    """

    start: int
    end: int
    key_end: int
    visible: NDArray[np.int64] | None
    segments: list[Segment]
    left: int


class Denoiser(Protocol):
    """The state machine of one request between forwards: which window next, and what commits mean."""

    blocks_begun: int
    """Number of canvas blocks denoised so far, the current ones included."""

    @property
    def most_rows(self) -> int:
        """The most rows that any coming window can have."""

    def next_window(self) -> Window:
        """The next forward; may open blocks for it. Call once per step, never after the end."""

    def apply(self, positions: list[int], tokens: list[int]) -> None:
        """Take the commits of the forward that ``next_window`` described."""


def static_quota(masked: int, steps: int, step: int) -> int:
    """Tokens the static rule commits in forward ``step`` of ``steps``: an even split, remainder first (LLaDA)."""
    return masked // steps + (step < masked % steps)

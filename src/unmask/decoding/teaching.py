"""Teacher forcing: where the answer is known already, each forward decides one token of it, the leftmost open one.

So a token is judged by what stands left of it alone; what stands to its right is still masked.
"""

from __future__ import annotations

from unmask.decoding.canvas import Canvas
from unmask.decoding.pace import AT_ONCE
from unmask.decoding.windows import Segment, Window


def leftmost_only(window: Window, canvas: Canvas) -> None:
    """Of all that may commit in ``window``, leave the leftmost open position; nothing may in a piece of a prefill."""
    if window.segments:
        position = canvas.decided
        window.segments = [Segment(position, position + 1, AT_ONCE)]

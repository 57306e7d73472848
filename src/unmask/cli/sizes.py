"""Sizes as people read them."""

from __future__ import annotations


def size(count: int | None) -> str | None:
    """``count`` bytes, in the unit that suits."""
    if count is None:
        return None
    power = min(max((count.bit_length() - 1) // 10, 1), 3)
    return f"{count / 1024**power:.1f} {' KMG'[power]}iB"

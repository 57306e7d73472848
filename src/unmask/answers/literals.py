"""Fixed texts looked for in text that grows at its end."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache


@lru_cache(maxsize=256)
def any_of(literals: tuple[str, ...]) -> re.Pattern[str]:
    """An expression of each of ``literals``, the longer of two that begin alike; of nothing if there are none."""
    longest_first = sorted(literals, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) if literals else r"(?!)")


def unsettled(text: str, start: int, literals: Collection[str]) -> int:
    """The length of the longest end of ``text``, from ``start`` on, that could become one of ``literals``."""
    longest = min(len(text) - start, max(map(len, literals), default=1) - 1)
    return next((n for n in range(longest, 0, -1) if any(one.startswith(text[-n:]) for one in literals)), 0)

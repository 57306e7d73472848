"""What became of the requests of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Outcome:
    """Seconds from the arrival of each request [N]: until it was admitted, until its first block, until its end.

    NaN where it did not come to that: requests that were ``refused``, as a full server refuses them, have no times.
    ``busy``: seconds that replicas spent in steps; ``steps``: how many; ``spans``: requests in them, summed;
    ``evictions``: how often one lost its keys and values; ``ended``: when the last request ended.
    """

    queued: list[float]
    first_block: list[float]
    total: list[float]
    refused: list[int] = field(default_factory=list)
    busy: float = 0.0
    steps: int = 0
    spans: int = 0
    evictions: int = 0
    ended: float = 0.0

    @classmethod
    def of(cls, count: int) -> Outcome:
        """For ``count`` requests, none of which has come to anything yet."""
        return cls([np.nan] * count, [np.nan] * count, [np.nan] * count)

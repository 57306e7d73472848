"""How much memory all models may take together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """``amount`` bytes, or this ``share`` (above 0, at most 1) of what there is; one of the two is None."""

    amount: int | None = None
    share: float | None = None

    def of(self, available: int) -> int:
        """The budget in bytes where ``available`` ones may be taken in all."""
        return self.amount if self.amount is not None else int((self.share or 1.0) * available)

"""The ledger of key/value pages: which are free, which are in use."""

from __future__ import annotations

PAGE_TOKENS = 32


def pages_for(tokens: int) -> int:
    """Pages that ``tokens`` positions need."""
    return -(-tokens // PAGE_TOKENS)


class PageLedger:
    """``total`` pages of ``PAGE_TOKENS`` positions each. Page p holds slots p * PAGE_TOKENS and the following ones."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._free = list(range(total - 1, -1, -1))

    @property
    def in_use(self) -> int:
        """Pages taken and not yet given back."""
        return self.total - len(self._free)

    def fits(self, count: int) -> bool:
        """Whether ``count`` pages are free."""
        return count <= len(self._free)

    def take(self, count: int) -> list[int]:
        """``count`` free pages; the caller has checked that they fit."""
        assert self.fits(count)
        return [self._free.pop() for _ in range(count)]

    def give_back(self, pages: list[int]) -> None:
        """Free ``pages``."""
        self._free.extend(reversed(pages))
        assert len(self._free) <= self.total

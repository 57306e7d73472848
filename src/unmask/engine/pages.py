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
        self.in_use = 0
        self._taken = bytearray(total)

    def fits(self, count: int) -> bool:
        """Whether ``count`` pages are free."""
        return count <= self.total - self.in_use

    def take(self, count: int) -> list[int]:
        """``count`` free pages, which the caller has checked to fit; one after another if there is such a run."""
        assert self.fits(count)
        run = self._taken.find(bytes(count))
        if run >= 0:
            pages = list(range(run, run + count))
        else:
            pages = [page for page, taken in enumerate(self._taken) if not taken][:count]
        self._mark(pages, 1)
        return pages

    def give_back(self, pages: list[int]) -> None:
        """Free ``pages``."""
        self._mark(pages, 0)

    def _mark(self, pages: list[int], taken: int) -> None:
        for page in pages:
            assert self._taken[page] != taken, f"page {page} is {'taken' if taken else 'free'} already"
            self._taken[page] = taken
        self.in_use += len(pages) if taken else -len(pages)

"""The pages that one request holds while it runs, and the cache slots that they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmask.decoding.windows import Window
from unmask.engine.pages import PAGE_TOKENS, PageCopy


class HeldPages:
    """``pages`` of each stream hold the request's positions in order, ``shadows`` the rows of its shadows.

    ``pinned`` are pages of the prefix cache that it has copied or will copy (``copies``), and keeps from being dropped.
    ``borrowed``: these are a draft's, for the rows of one window.
    """

    def __init__(
        self,
        pages: list[list[int]],
        *,
        shadows: list[int] | None = None,
        pinned: list[int] | None = None,
        copies: list[PageCopy] | None = None,
    ) -> None:
        self.pages = pages
        self.shadows = shadows or []
        self.pinned = pinned or []
        self.copies = copies or []
        self.borrowed = False
        self._lasting = 0
        self._slots = [np.empty(0, dtype=np.int64) for _ in pages]  # of those pages that were asked for

    @property
    def lasting(self) -> int:
        """Positions whose keys and values the request can keep."""
        return self._lasting if self.borrowed else len(self.pages[0]) * PAGE_TOKENS

    def extend(self, pages: list[list[int]]) -> None:
        """Go on with more ``pages`` of each stream."""
        for stream, new in enumerate(pages):
            self.pages[stream] += new

    def slots(self, unconditional: bool) -> NDArray[np.int64]:
        """Cache slots of the first positions, as far as there are pages."""
        known, pages = self._slots[unconditional], self.pages[unconditional]
        if not self.borrowed and len(known) < len(pages) * PAGE_TOKENS:
            known = np.concatenate([known, _slots(pages[len(known) // PAGE_TOKENS :])])
            self._slots[unconditional] = known
        return known

    def shadow_slots(self, count: int) -> NDArray[np.int64]:
        """Cache slots of so many shadows."""
        return _slots(self.shadows)[:count]

    def page_of(self, position: int, unconditional: bool) -> int:
        """The page that holds ``position``; of those borrowed, which hold the rows of a window, the first."""
        pages = self.pages[unconditional]
        return pages[0] if self.borrowed else pages[position // PAGE_TOKENS]

    def take_copies(self) -> list[PageCopy]:
        """The copies of pages that the first forward needs; none after that."""
        copies, self.copies = self.copies, []
        return copies

    def for_draft(self, window: Window, pages: list[list[int]]) -> HeldPages:
        """The same slots, but for the rows of ``window``, which go to borrowed ``pages`` of each stream."""
        held = HeldPages(pages)
        held.borrowed, held._lasting = True, self.lasting
        own_slots = [self.slots(bool(stream)) for stream in range(len(pages))]
        missing = np.zeros(max(window.end - len(own_slots[0]), 0), dtype=np.int64)  # all of them are rows
        held._slots = [np.concatenate([slots, missing]) for slots in own_slots]
        for slots, own in zip(held._slots, pages, strict=True):
            slots[window.places] = _slots(own)[: window.count]
        return held


def _slots(pages: list[int]) -> NDArray[np.int64]:
    """The cache slots of ``pages``, in order."""
    return (np.array(pages, dtype=np.int64)[:, None] * PAGE_TOKENS + np.arange(PAGE_TOKENS)).ravel()

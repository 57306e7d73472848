"""The ledger of key/value pages: who uses which, and which are kept for requests to come."""

from __future__ import annotations

from dataclasses import dataclass

PAGE_TOKENS = 32

_FREE, _CLAIMED, _HELD = 0, 1, 2


def pages_for(tokens: int) -> int:
    """Pages that ``tokens`` positions need."""
    return -(-tokens // PAGE_TOKENS)


@dataclass(frozen=True, slots=True)
class PageCopy:
    """What page ``source`` holds is wanted in page ``target`` too, before the step writes anything."""

    source: int
    target: int


class PageLedger:
    """``total`` pages of ``PAGE_TOKENS`` positions each. Page p holds slots p * PAGE_TOKENS and the following ones.

    A page is free, in use by one request or several, or idle: in use by nobody, but kept for what it holds. Pages that
    follow those of a growing request are claimed: others get them only when nothing else is free, so that a request's
    pages lie next to each other as long as there is room for that.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.in_use = 0
        self.idle = 0
        self._marks = bytearray(total)
        self._users = [0] * total
        self._kept = bytearray(total)

    @property
    def free(self) -> int:
        """Pages that ``take`` can give."""
        return self.total - self.in_use - self.idle

    def take(self, count: int, claim: int, after: int | None = None) -> list[int]:
        """``count`` free pages, which the caller has checked to be there; one after another if there is such a run.

        Best behind page ``after``; without it where ``claim`` pages are free in a row, which are claimed.
        """
        assert count <= self.free
        if after is not None and self._unheld(after + 1, count):
            pages = list(range(after + 1, after + 1 + count))
        elif (run := self._marks.find(bytes(claim))) >= 0:
            self._marks[run : run + claim] = bytes([_CLAIMED]) * claim
            pages = list(range(run, run + count))
        else:
            unheld = [page for page, mark in enumerate(self._marks) if mark != _HELD]
            pages = sorted(sorted(unheld, key=lambda page: self._marks[page])[:count])
        for page in pages:
            self._marks[page] = _HELD
        self.in_use += count
        for page in pages:
            self._users[page] = 1
        return pages

    def use(self, pages: list[int]) -> None:
        """One more user of each of ``pages``, which are kept or in use."""
        for page in pages:
            assert self._marks[page] == _HELD, f"page {page} is free"
            if not self._users[page]:
                self.idle -= 1
                self.in_use += 1
            self._users[page] += 1

    def give_back(self, pages: list[int]) -> None:
        """One user less of each of ``pages``; those that nobody uses or keeps are free."""
        for page in pages:
            assert self._users[page] > 0, f"page {page} is free already"
            self._users[page] -= 1
            if self._users[page]:
                continue
            self.in_use -= 1
            if self._kept[page]:
                self.idle += 1
            else:
                self._marks[page] = _FREE

    def give_up_claim(self, after: int, count: int) -> None:
        """Nobody grows into the ``count`` pages behind page ``after`` any more."""
        for page in range(after + 1, min(after + 1 + count, self.total)):
            if self._marks[page] == _CLAIMED:
                self._marks[page] = _FREE

    def keep(self, pages: list[int]) -> None:
        """From now on ``pages``, which are in use, stay when nobody uses them."""
        for page in pages:
            assert self._users[page] > 0, f"page {page} is not in use"
            assert not self._kept[page], f"page {page} is kept already"
            self._kept[page] = 1

    def drop(self, pages: list[int]) -> None:
        """``pages``, which are idle, are free."""
        for page in pages:
            assert self._kept[page], f"page {page} is not kept"
            assert not self._users[page], f"page {page} is in use"
            self._kept[page] = 0
            self._marks[page] = _FREE
            self.idle -= 1

    def unused(self, page: int) -> bool:
        """Whether nobody uses ``page``."""
        return not self._users[page]

    def _unheld(self, first: int, count: int) -> bool:
        marks = self._marks[first : first + count]
        return len(marks) == count and _HELD not in marks

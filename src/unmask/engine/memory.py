"""Which request holds which pages. They come as a canvas opens up, and go when its request ends or is evicted."""

from __future__ import annotations

from unmask.engine.held_pages import HeldPages
from unmask.engine.pages import PAGE_TOKENS, PageCopy, PageLedger, pages_for
from unmask.engine.prefix import PrefixCache, Unit
from unmask.engine.sequence import Sequence


class KeyValueMemory:
    """The pages of one engine, and the ``prefixes`` that they hold. A request begins with those that others have filled
    with the same final tokens.
    """

    def __init__(self, ledger: PageLedger) -> None:
        self.ledger = ledger
        self.prefixes = PrefixCache(ledger)

    @property
    def total(self) -> int:
        """Pages there are."""
        return self.ledger.total

    def awaited(self, sequence: Sequence) -> bool:
        """Whether a running request is just computing what ``sequence`` begins with."""
        return self.prefixes.awaited(sequence)

    def admit(self, sequence: Sequence, spare: int, now: float) -> bool:
        """Let ``sequence`` run with the pages of its first forward; False unless ``spare`` pages are left besides."""
        units = self.prefixes.known(sequence)
        # A known page that is copied is held besides the request's own. Where nobody else runs, that must not be what
        # is one too many, for no page would ever come free.
        if not self._admit_behind(units, sequence, spare, now):
            return spare == 0 and bool(units) and self._admit_behind([], sequence, spare, now)
        return True

    def _admit_behind(self, units: list[Unit], sequence: Sequence, spare: int, now: float) -> bool:
        """Let ``sequence`` run with the pages of ``units``, which it begins with, and those of its first forward."""
        known = [page for unit in units for page in unit.pages]
        cached = min(sum(unit.length for unit in units), sequence.most_reusable)
        whole = cached // PAGE_TOKENS  # pages that it only reads
        missing = pages_for(sequence.denoiser.coming_end) - whole
        self.ledger.use(known)  # else making room might drop them
        shadowing = pages_for(sequence.params.shadow_rows)
        if not self.make_room(missing * sequence.streams + shadowing + spare):
            self.ledger.give_back(known)
            return False
        claim = pages_for(sequence.canvas.length) - whole
        own = [self.ledger.take(missing, claim) for _ in range(sequence.streams)]
        held = HeldPages(
            [[*known[:whole], *pages] for pages in own],
            shadows=self.ledger.take(shadowing, claim=shadowing),
            pinned=known[whole:],
            copies=[PageCopy(page, own[0][0]) for page in known[whole : pages_for(cached)]],
        )
        sequence.admit(held, cached, now)
        self.prefixes.join(sequence, units)
        return True

    def grow(self, sequence: Sequence) -> bool:
        """The pages that the next forward of ``sequence`` needs besides; False if there is no room."""
        self.prefixes.offer(sequence)
        held = sequence.held
        missing = pages_for(sequence.denoiser.coming_end) - len(held.pages[0])
        if missing <= 0:
            return True
        if not self.make_room(missing * sequence.streams):
            return False
        claim = pages_for(sequence.canvas.length) - len(held.pages[0])
        held.extend([self.ledger.take(missing, claim, after=pages[-1]) for pages in held.pages])
        return True

    def release(self, sequence: Sequence) -> None:
        """Take all pages from ``sequence``; those that the prefix cache keeps are not lost."""
        self.prefixes.offer(sequence)
        self.prefixes.leave(sequence)
        held, sequence.held = sequence.held, HeldPages([])
        for pages in held.pages:
            self.ledger.give_up_claim(pages[-1], pages_for(sequence.canvas.length) - len(pages))
            self.ledger.give_back(pages)
        self.ledger.give_back(held.pinned + held.shadows)

    def make_room(self, count: int) -> bool:
        """Whether ``count`` pages are free, now that what nobody uses has been dropped as far as needed.

        Nothing is dropped where that would not be enough.
        """
        if count > self.ledger.free + self.ledger.idle:
            return False
        while self.ledger.free < count:
            if not self.prefixes.drop_oldest():
                return False
        return True

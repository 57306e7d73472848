"""Stop strings in text that comes in pieces of any size."""

from __future__ import annotations

from collections.abc import Sequence


class StopScanner:
    """Passes text on up to the first of ``stops``. What could still become one is held back.

    ``met``: the stop string that was found, "" before that.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._longest = max(map(len, stops), default=0)
        self._held = ""
        self.met = ""

    def feed(self, text: str) -> str:
        """What ``text`` makes safe to show. Nothing may follow once a stop string is ``met``."""
        if not self._stops:
            return text
        self._held += text
        hits = [(hit, stop) for stop in self._stops if (hit := self._held.find(stop)) >= 0]
        if hits:
            first, self.met = min(hits)
            shown, self._held = self._held[:first], ""
            return shown
        settled = len(self._held) - self._begun()
        shown, self._held = self._held[:settled], self._held[settled:]
        return shown

    def flush(self) -> str:
        """What was held back, now that the text is over."""
        shown, self._held = self._held, ""
        return shown

    def _begun(self) -> int:
        """The length of the longest end of the text that begins a stop string."""
        longest = min(len(self._held), self._longest - 1)
        return next((n for n in range(longest, 0, -1) if self._begins(self._held[-n:])), 0)

    def _begins(self, end: str) -> bool:
        return any(stop.startswith(end) for stop in self._stops)

"""Which tokens' log-probabilities belong to the text shown so far."""

from __future__ import annotations

from msgspec.structs import replace

from unmask.events import TokenLogprob


class ShownTokens:
    """Holds each token's entry back as long as its text is: entries are given with the end of their text.

    A token whose text was cut by a stop string is given if any of it is shown, one whose text is all hidden never. A
    token without text of its own (a part of a character, a special one) goes with the text that comes next, or with
    the end of the answer.
    """

    def __init__(self) -> None:
        self._held: list[tuple[int, TokenLogprob]] = []
        self._decoded = 0
        self._shown = 0

    def decoded(self, entry: TokenLogprob, text: str) -> None:
        """The token of ``entry`` came next, and with it ``text`` became certain; some of it may not be shown yet."""
        start, self._decoded = self._decoded, self._decoded + len(text)
        self._held.append((self._decoded, replace(entry, offset=start)))

    def shown(self, text: str, *, cut: bool, last: bool) -> list[TokenLogprob]:
        """The entries that ``text``, shown after all before, completes.

        ``cut``: a stop string has ended the answer; ``last``: so did the engine, and nothing is held back any more.
        """
        self._shown += len(text)
        given = 0
        for end, entry in self._held:
            if not (last or (entry.offset < self._shown and (cut or end <= self._shown))):
                break
            given += 1
        entries = [entry for _, entry in self._held[:given]]
        del self._held[:given]
        return entries

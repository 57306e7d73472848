"""Content without its layout: line breaks that only set markers apart."""

from __future__ import annotations

from unmask.answers.parts import Content, Part


class Prose:
    """Adds content to ``parts``.

    Line breaks that touch a marker are layout. They are shown only between two stretches of content, and then the
    longer run of those before and after the markers: of "A", a call and "B" on lines of their own remains "A\\nB". All
    other line breaks are content, held back only while a marker could follow.

    ``spoken``: whether anything but white space was shown.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._shown = False
        self._gap = 0  # line breaks before the markers that came last
        self._run = 0  # those since
        self._touching = False  # whether a marker, and not content, came before them
        self.spoken = False

    def write(self, text: str) -> None:
        """``text`` comes next."""
        body = text.lstrip("\n")
        self._run += len(text) - len(body)
        if not body:
            return
        ended = body.rstrip("\n")
        lead = self._run if not self._touching else max(self._gap, self._run) if self._shown else 0
        self._parts.append(Content("\n" * lead + ended))
        self._run, self._touching, self._shown = len(body) - len(ended), False, True
        self.spoken = self.spoken or not ended.isspace()

    def mark(self) -> None:
        """A marker comes next, which is not shown."""
        self._gap = max(self._gap, self._run) if self._touching else self._run
        self._run, self._touching = 0, True

    def end(self) -> None:
        """No marker can follow."""
        if self._run and not self._touching:
            self._parts.append(Content("\n" * self._run))
            self._run = 0

"""Reasoning without its layout: line breaks next to its markers."""

from __future__ import annotations

from unmask.answers.parts import Part, Reasoning


class Thoughts:
    """Adds reasoning to ``parts``. Several blocks of it are parted by a line break.

    ``begun``: whether the block at hand said anything.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._before = False  # whether an earlier block did
        self._breaks = 0  # line breaks since
        self.begun = False

    def open(self) -> None:
        """A block begins."""
        self._before = self._before or self.begun
        self.begun, self._breaks = False, 0

    def write(self, text: str) -> None:
        """``text`` comes next in the block."""
        body = text.lstrip("\n")
        self._breaks += len(text) - len(body)
        if not body:
            return
        ended = body.rstrip("\n")
        lead = self._breaks if self.begun else int(self._before)
        self._parts.append(Reasoning("\n" * lead + ended))
        self.begun, self._breaks = True, len(body) - len(ended)

    def end(self) -> None:
        """The text is over within the block."""
        if self.begun and self._breaks:
            self._parts.append(Reasoning("\n" * self._breaks))

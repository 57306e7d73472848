"""Each call's pieces in a row, as dialects tell them: nothing else stands between."""

from __future__ import annotations

from collections.abc import Iterable

from unmask.answers.parts import Part, ToolPiece
from unmask.gateway.upstream.calls import CallError, is_object


class CallRows:
    """Lets parts through. What comes within a call waits for its end; a call whose arguments are whole ends there.

    A call without arguments, which servers tell with none at all, is given ``{}`` as something else comes.
    """

    def __init__(self) -> None:
        self._call: int | None = None  # the one that goes on
        self._arguments: list[str] = []
        self._whole: bool | None = None  # whether they are; None if that was not looked at since the last piece
        self._waiting: list[Part] = []

    def put(self, parts: Iterable[Part]) -> list[Part]:
        """What can be told of ``parts``, which come next. Raises ``CallError``."""
        return [
            one for part in parts for one in (self._piece(part) if isinstance(part, ToolPiece) else self._other(part))
        ]

    def end(self, *, whole: bool) -> list[Part]:
        """What is left, now that the answer is over; it is not ``whole`` if it was cut."""
        if not whole:
            self._call = None
        return self._close()

    def _piece(self, piece: ToolPiece) -> list[Part]:
        if piece.name is not None:
            before = self._close()
            self._call, self._arguments, self._whole = piece.index, [piece.arguments], None
            return [*before, piece]
        if piece.index == self._call:
            self._arguments.append(piece.arguments)
            self._whole = None
            return [piece]
        if piece.arguments.strip():
            raise CallError("more of a call came after its end")
        return []

    def _other(self, part: Part) -> list[Part]:
        if self._whole is None:
            arguments = "".join(self._arguments)
            self._whole = not arguments.strip() or is_object(arguments)
        if self._call is None or self._whole:
            return [*self._close(), part]
        self._waiting.append(part)
        return []

    def _close(self) -> list[Part]:
        """The call that goes on, if there is one, is over."""
        number, self._call = self._call, None
        waiting, self._waiting = self._waiting, []
        if number is None or any(piece.strip() for piece in self._arguments):
            return waiting
        return [ToolPiece(number, "{}"), *waiting]

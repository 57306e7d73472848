"""Tool calls from a stream's deltas, in all the ways in which servers number them, or do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from unmask.answers.parts import ToolPiece
from unmask.gateway.upstream.chunk import Call


class CallError(ValueError):
    """What came cannot be told as calls in their order."""


@dataclass(slots=True)
class _Open:
    """A call that is being told: how the server names it, and its arguments so far."""

    index: int | None
    call_id: str | None
    name: str | None
    number: int = -1  # once it has a name
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """All of them."""
        return "".join(self.pieces)


class CallReader:
    """Gives each call its number, in the order in which they begin. Deltas come whole or in pieces.

    Without an index, a delta with a name or a new id begins a call, any other goes on with the last. With one and the
    same index for all calls, as some servers have it, one with another id, or with a name after complete arguments,
    begins a call too.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        """``numbers``: those of the answer's calls, each to be taken as one begins."""
        self._numbers = numbers
        self._seen: set[int] = set()
        self._open: _Open | None = None

    def feed(self, call: Call) -> list[ToolPiece]:
        """What ``call`` adds. Raises ``CallError``."""
        function = call.function
        name = (function and function.name) or None
        arguments = _text(function.arguments if function else None)
        if self._open is None or self._begins(self._open, call, name):
            self.end()
            if call.index is not None:
                if name is None and call.index in self._seen:
                    raise CallError("more of a call came after another one had begun")
                self._seen.add(call.index)
            self._open = _Open(call.index, call.id, None)
        return self._go_on(self._open, name, arguments)

    def end(self) -> None:
        """The call at hand is over. Raises ``CallError`` if it had no name."""
        call, self._open = self._open, None
        if call is not None and call.name is None:
            raise CallError("a call has no name")

    def _begins(self, last: _Open, call: Call, name: str | None) -> bool:
        """Whether ``call`` is another one than the ``last``."""
        if call.index is not None and last.index is not None and call.index != last.index:
            return True
        if call.id and last.call_id and call.id != last.call_id:
            return True
        if name is None or last.name is None:
            return False
        return is_object(last.arguments) or (call.index is None and not call.id)

    def _go_on(self, call: _Open, name: str | None, arguments: str) -> list[ToolPiece]:
        """What is added to ``call``; ``arguments`` that come before the name wait for it."""
        call.pieces.append(arguments)
        if call.name is not None:
            return [ToolPiece(call.number, arguments)] if arguments else []
        if name is None:
            return []
        call.name = name
        call.number = next(self._numbers)
        return [ToolPiece(call.number, call.arguments, name)]


def is_object(arguments: str) -> bool:
    """Whether ``arguments`` are a whole JSON object. Line breaks in strings are taken, as models write them."""
    if not arguments.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(arguments, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _text(arguments: object) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()

"""Server-sent events, read from bytes in pieces of any size."""

from __future__ import annotations

import re

MAX_EVENT = 8 * 1024 * 1024  # bytes

_LINE_END = re.compile(rb"[\r\n]")


class EventTooLargeError(ValueError):
    """An event has more than ``MAX_EVENT`` bytes."""


class EventReader:
    """Gives the data of each event. Comments, names, ids and other fields say nothing here.

    Understood besides: a field ``error``, as llama.cpp has written it, and JSON on a line of its own without a field,
    as servers write it that are asked for a stream and have none. An event that the connection's end cuts off counts if
    its line does not seem to be complete only because the last line break is missing.
    """

    def __init__(self) -> None:
        self._line = bytearray()
        self._size = 0
        self._data: list[bytes] = []
        self._after_return = False  # a line feed would belong to the line break already met
        self._started = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that ``piece`` completes. Raises ``EventTooLargeError``."""
        events: list[bytes] = []
        at = 0
        while at < len(piece):
            if self._after_return and piece[at] == 0x0A:
                at += 1
                self._after_return = False
                continue
            self._after_return = False
            end = _LINE_END.search(piece, at)
            stop = end.start() if end else len(piece)
            self._keep(piece[at:stop])
            if end is None:
                break
            self._after_return = end.group() == b"\r"
            at = end.end()
            events += self._end_line()
        return events

    def finish(self) -> list[bytes]:
        """The event that has begun, now that no more bytes come."""
        return [*self._end_line(), *self._dispatch()]

    def _keep(self, text: bytes) -> None:
        self._line += text
        self._size += len(text)
        if self._size > MAX_EVENT:
            raise EventTooLargeError

    def _end_line(self) -> list[bytes]:
        line = bytes(self._line)
        self._line.clear()
        if not self._started:
            self._started = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return self._dispatch()
        if line.startswith(b"{"):
            return [*self._dispatch(), line]
        name, _, value = line.partition(b":")
        if name in (b"data", b"error"):
            self._data.append(value.removeprefix(b" "))
        else:
            self._size -= len(line)  # it is not kept
        return []

    def _dispatch(self) -> list[bytes]:
        data, self._data = b"\n".join(self._data), []
        self._size = len(self._line)
        return [data] if data.strip() else []

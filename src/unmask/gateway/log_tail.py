"""The end of a log that is still being written, and what has come since: for those who read along."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

POSITION = r"\d{1,20}:\d{1,12}"
_START = "0:0"


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Whole ``lines``, and the ``position`` after the last one, by which to ask for what comes next."""

    lines: list[str]
    position: str


def read_tail(path: Path, lines: int) -> LogPiece:
    """The last ``lines`` of the log that ``LogFile`` writes at ``path``; none if there is no such file."""
    pieces = _pieces(path)
    whole = _lines(b"".join(data for _, data in pieces))
    return LogPiece(whole[-lines:] if lines else [], _end(pieces))


def read_since(path: Path, position: str) -> LogPiece:
    """What came after ``position``; all there is, if too much has come since for that to be known."""
    pieces = _pieces(path)
    file, _, offset = position.partition(":")
    for number, (name, data) in enumerate(pieces):
        if name == int(file):
            since = [data[int(offset) :], *(data for _, data in pieces[number + 1 :])]
            return LogPiece(_lines(b"".join(since)), _end(pieces))
    return LogPiece(_lines(b"".join(data for _, data in pieces)), _end(pieces))


def _pieces(path: Path) -> list[tuple[int, bytes]]:
    """The older and the newer file as far as their lines are whole, each with a number that no rename changes.

    The newer one is read first: if it becomes the older one meanwhile, it is met twice, and not missed.
    """
    newer, older = _read(path), _read(path.with_name(f"{path.name}.1"))
    if newer is not None and older is not None and newer[0] == older[0]:
        newer = None
    return [piece for piece in (older, newer) if piece is not None]


def _read(path: Path) -> tuple[int, bytes] | None:
    try:
        with path.open("rb") as file:
            data = file.read()
            return os.fstat(file.fileno()).st_ino, data[: data.rfind(b"\n") + 1]
    except FileNotFoundError:
        return None


def _lines(data: bytes) -> list[str]:
    return data.decode(errors="replace").split("\n")[:-1]


def _end(pieces: list[tuple[int, bytes]]) -> str:
    return f"{pieces[-1][0]}:{len(pieces[-1][1])}" if pieces else _START

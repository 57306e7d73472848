"""Many pieces of work at once, none of which may hold up the others for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Piece(Generic[R]):
    begun: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    result: R | None = None
    error: BaseException | None = None


def side_by_side(
    work: Callable[[T], R], items: Sequence[T], *, late: Callable[[T], R], seconds: float = 10.0, at_once: int = 8
) -> list[R]:
    """``work`` of each of ``items``, in threads, ``at_once`` of them; ``late`` of one that takes over ``seconds``.

    Raises what ``work`` raises. A thread that is late is left to itself, and does not keep the process from ending.
    """
    places = threading.Semaphore(at_once)
    pieces: list[_Piece[R]] = []
    for item in items:
        places.acquire(timeout=seconds)  # after that, one that is late has lost its place
        pieces.append(_begin(work, item, places))
    return [_result(piece, item, late, seconds) for piece, item in zip(pieces, items, strict=True)]


def _begin(work: Callable[[T], R], item: T, places: threading.Semaphore) -> _Piece[R]:
    piece: _Piece[R] = _Piece()

    def run() -> None:
        try:
            piece.result = work(item)
        except BaseException as error:
            piece.error = error
        finally:
            piece.done.set()
            places.release()

    threading.Thread(target=run, daemon=True).start()
    return piece


def _result(piece: _Piece[R], item: T, late: Callable[[T], R], seconds: float) -> R:
    if not piece.done.wait(max(0.0, piece.begun + seconds - time.monotonic())):
        return late(item)
    if piece.error is not None:
        raise piece.error
    return piece.result  # type: ignore[return-value]

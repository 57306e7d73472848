"""Several processes that give logits, side by side."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from unmask.errors import UnmaskError
from unmask.models.logits_worker.call import CanvasCall
from unmask.models.logits_worker.exchange import Exchange
from unmask.models.logits_worker.process import WorkerProcess
from unmask.models.logits_worker.seat import Logits, Seat


class WorkerPool:
    """``count`` processes that ``start`` gives, all ready. Raises the error of the first that does not get so far.

    They end with ``close``, or when nobody has the pool any more.
    """

    def __init__(
        self, start: Callable[[], WorkerProcess], count: int, exchange: Exchange, vocabulary: int, seconds: float
    ) -> None:
        self._seats = [Seat(start, exchange, vocabulary, seconds) for _ in range(count)]
        # All processes belong to these threads, and end with them.
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="unmask-logits")
        self._ending = weakref.finalize(self, _end, self._seats, self._threads, exchange)
        try:
            for opening in [self._threads.submit(seat.open) for seat in self._seats]:
                opening.result()
        except BaseException:
            self.close()
            raise

    def answers(self, calls: Sequence[CanvasCall]) -> list[Logits | UnmaskError]:
        """What each of the ``calls`` of one step comes to."""
        queues = self._shared_out(calls)
        asked = [
            self._threads.submit(_ask_all, seat, [calls[number] for number in queue])
            for seat, queue in zip(self._seats, queues, strict=True)
        ]
        found: dict[int, Logits | UnmaskError] = {}
        for queue, answers in zip(queues, asked, strict=True):
            found.update(zip(queue, answers.result(), strict=True))
        return [found[number] for number in range(len(calls))]

    def _shared_out(self, calls: Sequence[CanvasCall]) -> list[list[int]]:
        """The numbers of the calls that each seat gets: those whose trails it holds; then each goes to the seat with
        least to do, rather to one that nobody builds on.
        """
        queues: list[list[int]] = [[] for _ in self._seats]
        held = {id(seat.held): number for number, seat in enumerate(self._seats) if seat.held is not None}
        others = []
        for number, call in enumerate(calls):
            if id(call.trail) in held:
                queues[held[id(call.trail)]].append(number)
            else:
                others.append(number)
        for number in others:
            loads = [len(queue) + (seat.held is not None) / 2 for queue, seat in zip(queues, self._seats, strict=True)]
            queues[loads.index(min(loads))].append(number)
        return queues

    def close(self) -> None:
        """End all processes."""
        self._ending()


def _ask_all(seat: Seat, calls: list[CanvasCall]) -> list[Logits | UnmaskError]:
    return [seat.answer(call.question, call.trail) for call in calls]


def _end(seats: list[Seat], threads: ThreadPoolExecutor, exchange: Exchange) -> None:
    for seat in seats:
        seat.retire()
    threads.shutdown(cancel_futures=True)
    exchange.close()

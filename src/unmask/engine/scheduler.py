"""Who takes part in the next step. Pure: no tensors, no clock, no input or output.

Denoising goes first: every running request contributes its window to every step, so nobody waits for a
neighbour; only batch requests take turns beside interactive ones (``turns.py``). What the largest coming windows of
the running requests leave of the row budget admits waiting ones, strictly in the queue's order (``waiting.py``); an
unused rest is carried over while the queue waits for it (deficit budget, Sangam, arXiv 2607.04206), so that a long
prompt gets its turn. A bidirectional prompt is indivisible, and one larger than the whole budget runs when nothing
else does. So a step has at most ``max_rows`` rows and one more prompt.
"""

from __future__ import annotations

from dataclasses import dataclass

from unmask.decoding.windows import Window
from unmask.engine.pages import PageLedger
from unmask.engine.relax import relaxed
from unmask.engine.sequence import Sequence
from unmask.engine.turns import Turns, batch_may_join
from unmask.engine.waiting import WaitingQueue
from unmask.service_class import ServiceClass


@dataclass(slots=True)
class Span:
    """One request's share of a step. An ``unconditional`` span is the second stream of classifier-free guidance."""

    sequence: Sequence
    window: Window
    unconditional: bool = False

    @property
    def rows(self) -> int:
        """Number of query positions."""
        return self.window.end - self.window.start

    @property
    def first_page(self) -> int:
        """The first key/value page of this stream of the request."""
        pages = self.sequence.pages
        return pages[len(pages) // 2 if self.unconditional else 0]


class Scheduler:
    """Waiting and running requests. A request is in exactly one of the two, or gone."""

    def __init__(
        self,
        max_running: int,
        max_rows: int,
        pages: PageLedger,
        service_classes: dict[str, ServiceClass] | None = None,
    ) -> None:
        self.waiting = WaitingQueue()
        self.running: dict[str, Sequence] = {}
        self.pages = pages
        self._max_running = max_running
        self._max_rows = max_rows
        self._deficit = 0
        self._turns = Turns()
        self._service_classes = service_classes or {}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.running and not self.waiting

    def submit(self, sequence: Sequence) -> None:
        """Queue a request."""
        self.waiting.append(sequence)

    def plan(self, now: float) -> list[Span]:
        """The next step: a window of each running request whose turn it is, those admitted now included."""
        budget = self._max_rows + self._deficit - self._rows
        blocked = False
        while self.waiting and len(self.running) < self._max_running:
            head = self.waiting.head(now, batch=self._batch_may_join())
            if head is None or not self.pages.fits(head.pages_needed):
                blocked = True
                break
            rows = head.most_rows
            if rows > budget and self.running:
                break
            self._admit(self.waiting.pop(), now)
            budget -= rows
        waits_for_rows = self.waiting and len(self.running) < self._max_running and not blocked
        self._deficit = max(budget, 0) if waits_for_rows else 0
        return [Span(sequence, sequence.denoiser.next_window()) for sequence in self._turns.next(self.running.values())]

    @property
    def load(self) -> float:
        """How busy the engine is, 0 to 1: at 1 it has the requests that may run, or the rows that a step may have."""
        requests = (len(self.running) + len(self.waiting)) / self._max_running
        return min(1.0, max(requests, self._rows / self._max_rows))

    def remove(self, request_id: str) -> Sequence | None:
        """Take a request out, wherever it is, and free its pages; None if it is not here."""
        sequence = self.running.pop(request_id, None)
        if sequence is not None:
            self.pages.give_back(sequence.pages)
            self.waiting.settle(sequence)
            return sequence
        return self.waiting.remove(request_id)

    @property
    def _rows(self) -> int:
        """The most rows that the running requests can have in a coming step."""
        return sum(sequence.most_rows for sequence in self.running.values())

    def _batch_may_join(self) -> bool:
        return batch_may_join(self.running.values(), self._max_running, self._max_rows, self.pages.total)

    def _admit(self, sequence: Sequence, now: float) -> None:
        service_class = self._service_classes.get(sequence.terms.service_class)
        if service_class is not None and not sequence.stats.forwards:
            sequence.relax(relaxed(sequence.params, service_class, self.load))
        self.running[sequence.request_id] = sequence
        sequence.admit(self.pages.take(sequence.pages_needed), now)

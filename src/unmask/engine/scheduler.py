"""Who takes part in the next step. Pure: no tensors, no clock, no input or output.

Denoising goes first: every running request contributes its window to every step, so nobody waits for a
neighbour. What the largest coming windows of the running requests leave of the row budget admits waiting ones,
strictly in order; an unused rest is carried over while the queue waits for it (deficit budget, Sangam,
arXiv 2607.04206), so that a long prompt gets its turn. A bidirectional prompt is indivisible, and one larger than
the whole budget runs when nothing else does. So a step has at most ``max_rows`` rows and one more prompt.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from unmask.decoding.windows import Window
from unmask.engine.pages import PageLedger
from unmask.engine.sequence import Sequence


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
    """Waiting and running requests. A request is in exactly one of the two, or gone.

    ``room``: rows of the planned step that no request wants; none while requests wait.
    """

    def __init__(self, max_running: int, max_rows: int, pages: PageLedger) -> None:
        self.waiting: deque[Sequence] = deque()
        self.running: dict[str, Sequence] = {}
        self.pages = pages
        self._max_running = max_running
        self._max_rows = max_rows
        self.room = 0
        self._deficit = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.running and not self.waiting

    def submit(self, sequence: Sequence) -> None:
        """Queue a request."""
        self.waiting.append(sequence)

    def plan(self, now: float) -> list[Span]:
        """The next step: a window of every running request, then of those admitted now."""
        budget = self._max_rows + self._deficit - sum(map(_most_rows, self.running.values()))
        spans = [Span(sequence, sequence.next_window()) for sequence in self.running.values()]
        blocked = False
        while self.waiting and len(self.running) < self._max_running:
            head = self.waiting[0]
            if blocked := not self.pages.fits(head.pages_needed):
                break
            rows = _most_rows(head)
            if rows > budget and spans:
                break
            self.waiting.popleft()
            self.running[head.request_id] = head
            head.admit(self.pages.take(head.pages_needed), now)
            spans.append(Span(head, head.next_window()))
            budget -= rows
        waits_for_rows = self.waiting and len(self.running) < self._max_running and not blocked
        self._deficit = max(budget, 0) if waits_for_rows else 0
        self.room = 0 if self.waiting else max(budget, 0)
        return spans

    def remove(self, request_id: str) -> Sequence | None:
        """Take a request out, wherever it is, and free its pages; None if it is not here."""
        sequence = self.running.pop(request_id, None)
        if sequence is not None:
            self.pages.give_back(sequence.pages)
            return sequence
        for waiting in self.waiting:
            if waiting.request_id == request_id:
                self.waiting.remove(waiting)
                return waiting
        return None


def _most_rows(sequence: Sequence) -> int:
    """The most rows that any coming step of ``sequence`` can have, in all its streams."""
    return sequence.denoiser.most_rows * sequence.streams

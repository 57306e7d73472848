"""Who takes part in the next step. Pure: no tensors, no clock, no input or output.

Denoising goes first: every running request contributes its window to every step, so nobody waits for a
neighbour. What the largest coming windows of the running requests leave of the row budget goes to prefills: first to
those that are under way, then to waiting requests, strictly in order; an unused rest is carried over while the queue
waits for it (deficit budget, Sangam, arXiv 2607.04206), so that a long prompt gets its turn. A bidirectional prompt is
indivisible, and one larger than the whole budget runs when nothing else does. So a step has at most ``max_rows`` rows
and one more prompt.

Requests get pages as their canvases open up. When none are left, the least urgent one that can be interrupted is
evicted: it keeps its tokens, waits again, and goes on where it stood.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from unmask.decoding.windows import Window
from unmask.engine.memory import KeyValueMemory, PageCopy
from unmask.engine.pages import PAGE_TOKENS
from unmask.engine.sequence import Sequence


@dataclass(slots=True)
class Span:
    """One request's share of a step. An ``unconditional`` span is the second stream of classifier-free guidance.

    ``copies`` of pages are made before anything is computed.
    """

    sequence: Sequence
    window: Window
    unconditional: bool = False
    copies: list[PageCopy] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of query positions."""
        return self.window.end - self.window.start

    def page_of(self, position: int) -> int:
        """The page that holds ``position`` of this stream."""
        return self.sequence.pages[self.unconditional][position // PAGE_TOKENS]


class Scheduler:
    """Waiting and running requests. A request is in exactly one of the two, or gone."""

    def __init__(self, max_running: int, max_rows: int, memory: KeyValueMemory) -> None:
        self.waiting: deque[Sequence] = deque()
        self.running: dict[str, Sequence] = {}
        self.evictions = self.prompt_tokens = self.prompt_tokens_cached = 0
        self._turns = 0
        self._budget = 0
        self._memory = memory
        self._max_running = max_running
        self._max_rows = max_rows
        self._deficit = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do."""
        return not self.running and not self.waiting

    def submit(self, sequence: Sequence) -> None:
        """Queue a request."""
        sequence.turn = self._turns
        self._turns += 1
        self.waiting.append(sequence)

    def plan(self, now: float) -> list[Span]:
        """The next step: a window of every running request that has its pages, then of those admitted now."""
        able = [sequence for sequence in list(self.running.values()) if self._has_pages(sequence)]
        able = [sequence for sequence in able if sequence.request_id in self.running]
        self._budget = self._max_rows + self._deficit - sum(sequence.most_rows for sequence in self.running.values())
        spans = [self._span(sequence, sequence.most_rows, []) for sequence in able]
        blocked = self._admit(spans, now)
        self._deficit = max(self._budget, 0) if self.waiting and not blocked else 0
        return spans

    def _admit(self, spans: list[Span], now: float) -> bool:
        """Admit waiting requests in order as long as there are rows; whether something else than rows is missing."""
        while self.waiting:
            head = self.waiting[0]
            if len(self.running) == self._max_running or self._memory.awaited(head):
                return True
            if head.first_rows > self._budget and self.running:
                return False
            # Room to grow: a page for each stream of those that run already, lest they evict the newcomer at once.
            spare = sum(sequence.streams for sequence in self.running.values())
            copies = self._memory.admit(head, spare, now)
            if copies is None:
                return True
            self.waiting.popleft()
            self.running[head.request_id] = head
            self._count(head)
            self._budget -= head.first_rows
            spans.append(self._span(head, head.first_rows, copies))
        return False

    def _count(self, sequence: Sequence) -> None:
        if not sequence.stats.evictions:
            self.prompt_tokens += sequence.canvas.prompt_length
            self.prompt_tokens_cached += sequence.stats.cached

    def _span(self, sequence: Sequence, reserved: int, copies: list[PageCopy]) -> Span:
        """The next window of ``sequence``, which takes what it needs beyond its ``reserved`` rows from the budget."""
        room = (reserved + max(self._budget, 0)) // sequence.streams
        span = Span(sequence, sequence.denoiser.next_window(room), copies=copies)
        self._budget -= max(span.rows * sequence.streams - reserved, 0)
        return span

    def _has_pages(self, sequence: Sequence) -> bool:
        """Whether ``sequence`` has the pages of its next window, be it by the eviction of less urgent requests."""
        while sequence.request_id in self.running and not self._memory.grow(sequence):
            victims = [other for other in self.running.values() if other.denoiser.interruptible]
            if not victims:
                return False
            self._evict(max(victims, key=lambda victim: victim.turn))
        return sequence.request_id in self.running

    def _evict(self, sequence: Sequence) -> None:
        """Take its pages from ``sequence``; it waits in front of all that have not begun."""
        del self.running[sequence.request_id]
        self._memory.release(sequence)
        sequence.stats.evictions += 1
        self.evictions += 1
        self.waiting.appendleft(sequence)

    def remove(self, request_id: str) -> Sequence | None:
        """Take a request out, wherever it is, and free its pages; None if it is not here."""
        sequence = self.running.pop(request_id, None)
        if sequence is not None:
            self._memory.release(sequence)
            return sequence
        for waiting in self.waiting:
            if waiting.request_id == request_id:
                self.waiting.remove(waiting)
                return waiting
        return None

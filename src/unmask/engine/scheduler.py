"""Who takes part in the next step. Pure: no tensors, no clock, no input or output.

Denoising goes first: every running request contributes its window to every step, so nobody waits for a
neighbour; only batch requests take turns beside interactive ones (``turns.py``). What the largest coming windows of
the running requests leave of the row budget admits waiting ones, strictly in the queue's order (``waiting.py``), then
goes to prefills that are computed in pieces; an unused rest is carried over while the queue waits for it (deficit
budget, Sangam, arXiv 2607.04206), so that a long prompt gets its turn. A bidirectional prompt is indivisible, and one
larger than the whole budget runs when nothing else does. So a step has at most ``max_rows`` rows and one more prompt.

Requests get pages as their canvases open up (``memory.py``). When none are left, the least urgent one that can be
interrupted is evicted: it keeps its tokens, waits again, and goes on where it stood.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from unmask.decoding.windows import Window
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PageCopy
from unmask.engine.relax import relaxed
from unmask.engine.sequence import Sequence
from unmask.engine.turns import Turns, batch_may_join
from unmask.engine.urgency import urgency
from unmask.engine.waiting import WaitingQueue
from unmask.service_class import ServiceClass

_MOST_KEPT = 2**30  # bytes that rules may remember by default


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
        """Number of query rows."""
        return self.window.count

    def page_of(self, position: int) -> int:
        """The page that holds ``position`` of this stream; for a draft one that is its own."""
        return self.sequence.held.page_of(position, self.unconditional)


class Scheduler:
    """Waiting and running requests. A request is in exactly one of the two, or gone.

    What the rules of running requests remember takes at most ``most_kept`` bytes, or one request's share of more.
    ``room``: rows of the planned step that no request wants; none while requests wait.
    """

    def __init__(
        self,
        max_running: int,
        max_rows: int,
        memory: KeyValueMemory,
        service_classes: dict[str, ServiceClass] | None = None,
        most_kept: int = _MOST_KEPT,
    ) -> None:
        self.waiting = WaitingQueue()
        self.running: dict[str, Sequence] = {}
        self.evictions = self.prompt_tokens = self.prompt_tokens_cached = 0
        self._memory = memory
        self._max_running = max_running
        self._max_rows = max_rows
        self._most_kept = most_kept
        self.room = 0
        self._deficit = 0
        self._waits_for_rows = False
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
        """The next step: a window of every running request that has its turn and its pages."""
        stuck = {sequence.request_id for sequence in list(self.running.values()) if not self._grow(sequence, now)}
        budget = self._admit_waiting(self._max_rows + self._deficit - self._rows, now)
        spans = []
        for sequence in self._turns.next(self.running.values()):
            if sequence.request_id not in stuck:
                span, budget = _span(sequence, budget)
                spans.append(span)
        self._deficit = max(budget, 0) if self._waits_for_rows else 0
        self.room = 0 if self.waiting else max(budget, 0)
        return spans

    @property
    def load(self) -> float:
        """How busy the engine is, 0 to 1: at 1 it has the requests that may run, or the rows that a step may have."""
        requests = (len(self.running) + len(self.waiting)) / self._max_running
        return min(1.0, max(requests, self._rows / self._max_rows))

    def remove(self, request_id: str) -> Sequence | None:
        """Take a request out, wherever it is, and free its pages; None if it is not here."""
        sequence = self.running.pop(request_id, None)
        if sequence is not None:
            self._memory.release(sequence)
            self.waiting.settle(sequence)
            return sequence
        return self.waiting.remove(request_id)

    @property
    def _rows(self) -> int:
        """The most rows that the running requests can have in the coming step, besides pieces of prefills."""
        return sum(sequence.first_rows for sequence in self.running.values())

    @property
    def _kept(self) -> int:
        return sum(sequence.kept_bytes for sequence in self.running.values())

    def _admit_waiting(self, budget: int, now: float) -> int:
        """Admit waiting requests in order while ``budget`` rows allow it; what is left of them."""
        self._waits_for_rows = False
        while self.waiting and len(self.running) < self._max_running:
            head = self.waiting.head(now, batch=self._batch_may_join())
            if head is None or self._memory.awaited(head):
                break
            if head.first_rows > budget and self.running:
                self._waits_for_rows = True
                break
            if head.kept_bytes > self._most_kept - self._kept and self.running:
                break
            # Room to grow: a page for each stream of those that run already, lest they evict the newcomer at once.
            spare = sum(sequence.streams for sequence in self.running.values())
            if not self._memory.admit(head, spare, now):
                break
            self._begin(self.waiting.pop())
            budget -= head.first_rows
        return budget

    def _batch_may_join(self) -> bool:
        return batch_may_join(self.running.values(), self._max_running, self._max_rows, self._memory.total)

    def _begin(self, sequence: Sequence) -> None:
        if not sequence.stats.evictions:  # it may have been evicted before its first turn
            self.prompt_tokens += sequence.canvas.prompt_length
            self.prompt_tokens_cached += sequence.stats.cached
            service_class = self._service_classes.get(sequence.terms.service_class)
            if service_class is not None:
                sequence.relax(relaxed(sequence.params, service_class, self.load))
        self.running[sequence.request_id] = sequence

    def _grow(self, sequence: Sequence, now: float) -> bool:
        """Give ``sequence`` the pages of its next window, be it by evictions; False if it has to wait for them."""
        while sequence.request_id in self.running and not self._memory.grow(sequence):
            victims = [other for other in self.running.values() if other.denoiser.interruptible]
            if not victims:
                return False
            self._evict(max(victims, key=lambda victim: urgency(victim.terms, victim.arrived, now)))
        return True

    def _evict(self, sequence: Sequence) -> None:
        del self.running[sequence.request_id]
        self._memory.release(sequence)
        sequence.stats.evictions += 1
        self.evictions += 1
        self.waiting.append(sequence)


def _span(sequence: Sequence, budget: int) -> tuple[Span, int]:
    """The next window of ``sequence``, a piece of whose prefill may take from ``budget``; what is left of that."""
    reserved = sequence.first_rows
    window = sequence.next_window((reserved + max(budget, 0)) // sequence.streams)
    span = Span(sequence, window, copies=sequence.held.take_copies())
    return span, budget - max(span.rows * sequence.streams - reserved, 0)

"""The requests that wait, and whose turn it is. Pure: time is passed in.

Interactive requests go before batch ones; within a priority tenants share fairly, and a tenant's requests go by their
due time (``fair_line.py``). So that nothing starves, after three admissions in that order the next one goes by age: to
the request that has been overdue for longest (``urgency.py``). A request that is overdue behind k others, and whose
priority is open, is therefore admitted within 4 (k + 1) + 1 admissions, whatever arrives meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from unmask.engine.fair_line import FairLine
from unmask.engine.sequence import Sequence
from unmask.engine.urgency import overdue_from
from unmask.terms import PRIORITIES, Priority

_BY_ORDER = 3  # admissions in a row that go by priority and share while somebody is overdue


class WaitingQueue:
    """Iterates in the order of arrival. What was popped stays on its tenant's account until it is settled."""

    def __init__(self) -> None:
        self._waiting: dict[str, Sequence] = {}
        self._lines: dict[Priority, FairLine] = {priority: FairLine() for priority in PRIORITIES}
        self._head: Sequence | None = None
        self._by_age = False
        self._ordered = 0  # admissions since the last one by age

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._waiting.values())

    def append(self, sequence: Sequence) -> None:
        """Let ``sequence`` wait; one that has run and must wait again keeps its arrival, and so its place."""
        self._waiting[sequence.request_id] = sequence
        self._lines[sequence.terms.priority].add(sequence)

    def head(self, now: float, *, batch: bool = True) -> Sequence | None:
        """Who is to be admitted next; None if nobody may. Without ``batch``, batch requests may not.

        It stays the head until it is admitted or leaves, however long it takes to make room for it, so that none
        that needs less overtakes it. Only a batch request whose turn did not come by its age gives way, to an
        interactive one.
        """
        if self._head is None or self._gives_way(self._head, batch):
            self._head = self._choose(now, batch)
        return self._head

    def pop(self) -> Sequence:
        """Admit the head."""
        head = self._head
        assert head is not None, "head() comes first"
        self._ordered = 0 if self._by_age else self._ordered + 1
        self._forget(head)
        self._lines[head.terms.priority].take(head)
        return head

    def remove(self, request_id: str) -> Sequence | None:
        """Take a request out that shall not be admitted; None if it does not wait."""
        sequence = self._waiting.get(request_id)
        if sequence is not None:
            self._forget(sequence)
            self.settle(sequence)
        return sequence

    def settle(self, sequence: Sequence) -> None:
        """``sequence``, admitted before, has ended: its tenant is charged what it took."""
        self._lines[sequence.terms.priority].settle(sequence)

    def _choose(self, now: float, batch: bool) -> Sequence | None:
        self._by_age = False
        if self._ordered >= _BY_ORDER and (oldest := self._oldest(now, batch)) is not None:
            self._by_age = True
            return oldest
        head = self._lines["interactive"].head()
        return self._lines["batch"].head() if head is None and batch else head

    def _oldest(self, now: float, batch: bool) -> Sequence | None:
        """The request that has been overdue for longest."""
        admissible = (sequence for sequence in self if batch or sequence.terms.priority != "batch")
        overdue = ((overdue_from(sequence.terms, sequence.arrived), sequence) for sequence in admissible)
        return min((entry for entry in overdue if entry[0] <= now), key=lambda entry: entry[0], default=(0.0, None))[1]

    def _gives_way(self, head: Sequence, batch: bool) -> bool:
        if head.terms.priority != "batch":
            return False
        return not batch or (not self._by_age and self._lines["interactive"].head() is not None)

    def _forget(self, sequence: Sequence) -> None:
        del self._waiting[sequence.request_id]
        if self._head is sequence:
            self._head = None

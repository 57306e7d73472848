"""How urgent a request is. Pure: times are seconds on the loop's clock."""

from __future__ import annotations

from unmask.terms import PRIORITIES, Priority, Terms

# What a request without a deadline may wait before it counts as overdue. Batch requests have time.
PATIENCE: dict[Priority, float] = {"interactive": 10.0, "batch": 60.0}


def due(terms: Terms, arrived: float) -> float:
    """When a request should be done: at its deadline, or once its priority's patience has run out."""
    return arrived + (PATIENCE[terms.priority] if terms.deadline is None else terms.deadline)


def overdue_from(terms: Terms, arrived: float) -> float:
    """From when on a request has waited long enough to go by its age: its own word on deadlines does not count."""
    return arrived + PATIENCE[terms.priority]


def urgency(terms: Terms, arrived: float, now: float) -> tuple[int, float]:
    """Sorts requests, the most urgent first: by priority, which an overdue request no longer lacks, then by due time.

    Where one must give way (its keys and values taken for another), it is the one with the greatest urgency value.
    """
    overdue = now >= overdue_from(terms, arrived)
    return 0 if overdue else PRIORITIES.index(terms.priority), due(terms, arrived)

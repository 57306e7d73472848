"""Waiting requests of one priority: tenants take turns by the work done for them, a tenant's requests go by due time.

Start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996) with rows through the model for work. A request's rows
are known only when it has ended, so its tenant is charged one pass over its prompt and canvas when it is admitted,
and the difference to what it really took when it ends. A deadline moves a request among its tenant's alone: to
promise haste costs a client nothing, so it must not buy another tenant's share.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from unmask.engine.sequence import Sequence
from unmask.engine.urgency import due

_MOST_DEBTORS = 256  # tenants with nothing waiting or running that are still remembered for what they took


@dataclass(slots=True)
class _Account:
    """``served``: rows, on the line's clock. ``waiting`` is sorted by (due time, number). ``charged``: what
    ``served`` holds for each request that was admitted and has not ended.
    """

    served: float
    waiting: list[tuple[float, int, Sequence]] = field(default_factory=list)
    charged: dict[str, int] = field(default_factory=dict)


class FairLine:
    """The line. Who has nothing waiting saves nothing up: a tenant that comes back starts level with the others."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._clock = 0.0
        self._added = 0

    def add(self, sequence: Sequence) -> None:
        """Let ``sequence`` wait, for the first time or again."""
        account = self._accounts.setdefault(sequence.terms.tenant, _Account(self._clock))
        if not account.waiting:
            account.served = max(account.served, self._clock)
        self._added += 1
        insort(account.waiting, (due(sequence.terms, sequence.arrived), self._added, sequence))

    def head(self) -> Sequence | None:
        """Whose turn it is: of the tenant served least, the request due first; None if nobody waits."""
        waiting = [account for account in self._accounts.values() if account.waiting]
        return (
            min(waiting, key=lambda account: (account.served, account.waiting[0][:2])).waiting[0][2]
            if waiting
            else None
        )

    def take(self, sequence: Sequence) -> None:
        """``sequence`` is admitted: charge its tenant what one pass over it costs."""
        account = self._accounts[sequence.terms.tenant]
        self._clock = max(self._clock, account.served)
        self._leave(account, sequence)
        if sequence.request_id not in account.charged:  # else it has run before, and waited again
            cost = sequence.canvas.length * sequence.streams
            account.charged[sequence.request_id] = cost
            account.served += cost
        self._forget()

    def settle(self, sequence: Sequence) -> None:
        """``sequence`` has left, waiting or admitted: its tenant pays what it really took."""
        account = self._accounts[sequence.terms.tenant]
        self._leave(account, sequence)
        charged = account.charged.pop(sequence.request_id, None)
        if charged is not None:
            account.served += sequence.stats.canvas_tokens - charged
        self._forget()

    def _leave(self, account: _Account, sequence: Sequence) -> None:
        account.waiting = [entry for entry in account.waiting if entry[2] is not sequence]

    def _forget(self) -> None:
        """Accounts that a newcomer's would equal need not be kept, and of those that only owe not more than so many:
        clients make up tenants, and none of ever new ones lets the clock go on. The smallest debts are forgotten.
        """
        self._accounts = {
            tenant: account
            for tenant, account in self._accounts.items()
            if account.waiting or account.charged or account.served > self._clock
        }
        debtors = [tenant for tenant, account in self._accounts.items() if not (account.waiting or account.charged)]
        if len(debtors) > _MOST_DEBTORS:
            debtors.sort(key=lambda tenant: self._accounts[tenant].served)
            for tenant in debtors[: len(debtors) - _MOST_DEBTORS]:
                del self._accounts[tenant]

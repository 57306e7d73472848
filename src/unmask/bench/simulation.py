"""The virtual clock: arrivals and replicas take their turns in the order of their times."""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush

from unmask.bench.outcome import Outcome
from unmask.bench.replica import Replica
from unmask.bench.routing import Router
from unmask.bench.simulated import PricedTrajectory
from unmask.bench.workload import Workload


def simulate(
    workload: Workload,
    trajectories: list[PricedTrajectory],
    replicas: int,
    router: Router,
    capacity: int,
    new_replica: Callable[[Outcome], Replica],
) -> Outcome:
    """Serve ``workload``, whose shapes have ``trajectories``, on ``replicas`` equal ones.

    A replica that has ``capacity`` requests refuses the next. Who arrives at the very time at which a step ends is
    there when the next is planned.
    """
    outcome = Outcome.of(len(workload))
    priced = [trajectories[shape] for shape in workload.which.tolist()]
    fleet = _Fleet([new_replica(outcome) for _ in range(replicas)], priced, router)
    for number, now in enumerate(workload.times.tolist()):
        fleet.advance(now)
        chosen = router.choose()
        if router.requests[chosen] >= capacity:
            outcome.refused.append(number)
        else:
            fleet.submit(chosen, number, now)
    fleet.advance(math.inf)
    return outcome


class _Fleet:
    """Replicas by the time at which each wants to go on; an entry is void if its replica has changed its mind."""

    def __init__(self, replicas: list[Replica], priced: list[PricedTrajectory], router: Router) -> None:
        self._replicas = replicas
        self._priced = priced
        self._router = router
        self._heap: list[tuple[float, int]] = []

    def submit(self, chosen: int, number: int, now: float) -> None:
        """Give request ``number`` to the replica ``chosen``."""
        replica, priced = self._replicas[chosen], self._priced[number]
        before = replica.until
        self._router.begin(chosen, priced.tokens)
        replica.submit(number, priced, now)
        if replica.until != before:
            heappush(self._heap, (replica.until, chosen))

    def advance(self, now: float) -> None:
        """Let all go on who want to before ``now``."""
        heap = self._heap
        while heap and heap[0][0] < now:
            time, number = heappop(heap)
            replica = self._replicas[number]
            if replica.until != time:
                continue
            for ended in replica.advance():
                self._router.end(number, self._priced[ended].tokens)
            if replica.until < math.inf:
                heappush(heap, (replica.until, number))

"""Residency among models that take their time, at a virtual clock: who was served when, and how often was loaded."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from unmask.gateway.residency import End, Grant, Load, Refuse, Residency


@dataclass
class World:
    """``loads`` and ``stops`` take seconds by model. ``waits``: of each request by ticket, how long it waited."""

    residency: Residency
    loads: dict[str, float]
    stops: float = 0.2
    now: float = 0.0
    loaded: Counter = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)  # of loads
    waits: dict[int, float] = field(default_factory=dict)
    ahead: dict[int, int] = field(default_factory=dict)  # models that others waited for when a request came
    refused: dict[int, Exception] = field(default_factory=dict)
    ended: list[tuple[float, str]] = field(default_factory=list)

    def __post_init__(self):
        self._events = []
        self._numbers = count()
        self._tickets = count()
        self._asked: dict[int, tuple[str, float, float, object]] = {}

    def at(self, time, act):
        heapq.heappush(self._events, (time, next(self._numbers), act))

    def ask(self, time, name, seconds, then=lambda: None):
        """At ``time``, ask for a model, to use it for ``seconds``; ``then`` is called at the end."""

        def come():
            ticket = next(self._tickets)
            waiting = {one for one, *_ in self._asked.values()} - {name}
            self.ahead[ticket] = len(waiting)
            self._asked[ticket] = (name, self.now, seconds, then)
            self._do(self.residency.ask(ticket, name, self.now))

        self.at(time, come)

    def run(self, until=1e9):
        """Let everything happen, up to ``until``."""
        while True:
            due = self.residency.due
            next_event = self._events[0][0] if self._events else None
            times = [time for time in (due, next_event) if time is not None]
            if not times or min(times) > until:
                return
            self.now = min(times)
            if next_event is not None and next_event <= self.now:
                heapq.heappop(self._events)[2]()
            else:
                self._do(self.residency.tick(self.now))

    def _do(self, decisions):
        for decision in decisions:
            match decision:
                case Load(name):
                    self.loaded[name] += 1
                    self.order.append(name)
                    self.at(self.now + self.loads[name], lambda name=name: self._loaded(name))
                case End(name):
                    self.ended.append((self.now, name))
                    self.at(self.now + self.stops, lambda name=name: self._do(self.residency.closed(name, self.now)))
                case Grant(ticket, _):
                    _, asked, seconds, then = self._asked.pop(ticket)
                    self.waits[ticket] = self.now - asked
                    self.at(self.now + seconds, lambda ticket=ticket, then=then: self._over(ticket, then))
                case Refuse(ticket, error):
                    self._asked.pop(ticket)
                    self.refused[ticket] = error

    def _loaded(self, name):
        if self.residency.state(name, self.now).state == "loading":
            self._do(self.residency.loaded(name, self.now))

    def _over(self, ticket, then):
        self._do(self.residency.leave(ticket, self.now))
        then()


def closed_loop(world: World, name: str, seconds: float, until: float) -> None:
    """A client that asks again as soon as it is served."""

    def again():
        if world.now < until:
            world.ask(world.now, name, seconds, again)

    world.at(0.0, again)

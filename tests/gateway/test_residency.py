"""Which models are in memory, decided alone: no clock, no models, events in any order."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from unmask.errors import AllModelsBusyError, CircuitOpenError, EngineUnavailableError, InsufficientMemoryError
from unmask.gateway.model_state import ModelRecord
from unmask.gateway.residency import End, Grant, Load, Refuse, Residency, ResidencyLimits
from unmask.gateway.room import Room

MEMORY, PLACES, WAITING = 10, 3, 3
SIZES = {"a": 4, "b": 5, "c": 6, "d": 9, "pinned": 1, "huge": 10}  # "huge" does not fit beside the pinned one
IDLE = {"a": 30.0, "b": 5.0, "c": None, "d": 0.0, "pinned": 1.0, "huge": None}
HOLD, LINGER = 8.0, 0.5
LIMITS = ResidencyLimits(
    memory_bytes=MEMORY, max_resident=PLACES, max_waiting=WAITING, hold_seconds=HOLD, linger_seconds=LINGER
)


class ResidencyMachine(RuleBasedStateMachine):
    """Asks, leaves, loads, deaths and time in any order.

    What is known of the world comes from the decisions alone: ``lives`` of models, and the ``tickets`` of requests that
    wait (``waiting``, with the time) or have a model (``users``).
    """

    def __init__(self):
        super().__init__()
        self.residency = Residency(LIMITS)
        for name, size in SIZES.items():
            self.residency.add(name, size_bytes=size, idle_seconds=IDLE[name], pinned=name == "pinned")
        self.now = 100.0
        self.tickets = 0
        self.lives: dict[str, str] = {}
        self.since: dict[str, float] = {}
        self.waiting: dict[int, tuple[str, float]] = {}
        self.users: dict[int, str] = {}
        self.failed: dict[str, list[float]] = {name: [] for name in SIZES}
        self.failure: tuple[str, Exception] | None = None  # of a load, told just now
        self.stopped = ""  # by the operator, just now
        self.late = False
        self.kept: set[str] = set()  # models whose time was changed

    def decide(self, decisions):
        self.late = False
        for decision in decisions:
            match decision:
                case Load(name):
                    self.sees_load(name)
                case End(name):
                    self.sees_end(name)
                case Grant(ticket, name):
                    assert self.lives[name] == "up"
                    assert self.waiting.pop(ticket)[0] == name
                    self.users[ticket] = name
                case Refuse(ticket, error):
                    self.sees_refusal(ticket, error)
        self.failure, self.stopped = None, ""

    def sees_load(self, name):
        assert name not in self.lives, "one load per model"
        assert self.waiters(name), "somebody wants it"
        self.lives[name] = "loading"
        self.since[name] = self.now
        assert sum(SIZES[one] for one in self.lives) <= MEMORY
        assert len(self.lives) <= PLACES

    def sees_end(self, name):
        if self.stopped != name:
            assert name != "pinned" or name in self.kept or self.lives[name] == "loading", "it stays"
            assert name not in self.users.values(), "never one that is busy"
            if self.lives[name] == "loading":
                assert not self.waiters(name), "never one whose load is waited for"
            elif waiters := self.waiters(name):
                others = [ticket for ticket, (one, _) in self.waiting.items() if one not in self.lives]
                assert min(others) < min(waiters), "queued for, but behind another"
                assert self.now >= self.since[name] + HOLD, "and its turn was over"
        self.lives[name] = "ending"
        for ticket in [ticket for ticket, one in self.users.items() if one == name]:
            del self.users[ticket]

    def sees_refusal(self, ticket, error):
        name, _ = self.waiting.pop(ticket)
        match error:
            case InsufficientMemoryError():
                assert name == "huge"
            case AllModelsBusyError():
                assert len(self.waiters(name)) == WAITING
                assert error.retry_after == HOLD
            case CircuitOpenError():
                assert len(self.failed[name]) >= 3
                assert 1 <= error.retry_after <= 60
                assert "out of luck" in str(error)
            case EngineUnavailableError() if self.failure is not None:
                assert self.failure == (name, error)
            case _:
                assert self.stopped == name

    def waiters(self, name):
        return [ticket for ticket, (one, _) in self.waiting.items() if one == name]

    def those(self, life):
        return sorted(name for name, one in self.lives.items() if one == life)

    @rule(name=st.sampled_from(sorted(SIZES)))
    def ask(self, name):
        self.tickets += 1
        self.waiting[self.tickets] = (name, self.now)
        self.decide(self.residency.ask(self.tickets, name, self.now))

    @precondition(lambda self: self.tickets)
    @rule(data=st.data())
    def leave(self, data):
        here = sorted([*self.waiting, *self.users]) or [self.tickets]
        ticket = data.draw(st.sampled_from(here))
        self.waiting.pop(ticket, None)
        self.users.pop(ticket, None)
        self.decide(self.residency.leave(ticket, self.now))

    @precondition(lambda self: self.those("loading"))
    @rule(data=st.data(), fails=st.booleans())
    def load_ends(self, data, fails):
        name = data.draw(st.sampled_from(self.those("loading")))
        if fails:
            del self.lives[name]
            self.failed[name].append(self.now)
            error = EngineUnavailableError("out of luck")
            self.failure = (name, error)
            self.decide(self.residency.load_failed(name, error, self.now))
            assert not self.waiters(name)
        else:
            self.lives[name] = "up"
            self.since[name] = self.now
            waiters = self.waiters(name)
            self.decide(self.residency.loaded(name, self.now))
            assert all(self.users[ticket] == name for ticket in waiters)

    @precondition(lambda self: self.those("ending"))
    @rule(data=st.data())
    def closed(self, data):
        name = data.draw(st.sampled_from(self.those("ending")))
        del self.lives[name]
        self.decide(self.residency.closed(name, self.now))

    @precondition(lambda self: self.those("up"))
    @rule(data=st.data())
    def crashes(self, data):
        name = data.draw(st.sampled_from(self.those("up")))
        self.lives[name] = "ending"
        self.users = {ticket: one for ticket, one in self.users.items() if one != name}
        self.failed[name].append(self.now)
        others = dict(self.users)
        self.decide(self.residency.crashed(name, "out of luck", self.now))
        assert others.items() <= self.users.items(), "nobody else is affected"

    @rule(name=st.sampled_from(sorted(SIZES)), seconds=st.sampled_from([None, 0.0, 3.0, 1000.0]))
    def keep(self, name, seconds):
        self.kept.add(name)
        self.decide(self.residency.keep(name, seconds, self.now))

    @rule(name=st.sampled_from(sorted(SIZES)))
    def stop(self, name):
        self.stopped = name
        self.decide(self.residency.stop(name, self.now))
        assert not self.waiters(name)
        assert self.lives.get(name) in (None, "ending")

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 8.0, 61.0]))
    def time_passes(self, seconds):
        self.now += seconds
        self.decide(self.residency.tick(self.now))

    @rule(seconds=st.sampled_from([0.1, 1.0, 9.0]))
    def the_timer_is_late(self, seconds):
        self.now += seconds
        self.late = True

    @precondition(lambda self: self.residency.due is not None)
    @rule()
    def the_timer_is_due(self):
        self.now = max(self.now, self.residency.due)
        self.decide(self.residency.tick(self.now))

    @invariant()
    def what_is_told_is_so(self):
        words = {"loading": "loading", "up": "ready", "ending": "stopping"}
        for state in self.residency.states(self.now):
            life = self.lives.get(state.name)
            assert state.state in ([words[life]] if life else ["absent", "failed"])
            assert state.waiting == len(self.waiters(state.name))
            assert state.users == list(self.users.values()).count(state.name)
            assert (state.expires_at is None) or (state.state == "ready" and not state.users)

    @invariant()
    def nobody_waits_for_nothing(self):
        """Whoever waits, waits for something that will happen: an end of a load, a stop or a request, or a time."""
        going_on = self.those("loading") or self.those("ending") or self.users
        assert going_on or not self.waiting or self.residency.due is not None
        for name in self.those("up"):
            if self.waiters(name):
                assert [one for one, _ in self.waiting.values() if one not in self.lives], (
                    "its turn is over for another"
                )

    @invariant()
    def the_first_in_line_waits_only_for_room_or_time(self):
        line = [name for name, _ in self.waiting.values() if name not in self.lives]
        retry = {state.name: state.retry_at or 0.0 for state in self.residency.states(self.now)}
        able = [name for name in line if retry[name] <= self.now]
        if able and not self.late:
            fits = sum(SIZES[one] for one in [*self.lives, able[0]]) <= MEMORY and len(self.lives) < PLACES
            assert not fits, "no lost wake-up"

    def teardown(self):
        """If all that was begun ends well, everybody who waits is served."""
        for _ in range(500):
            if not self.waiting:
                return
            if loading := self.those("loading"):
                self.lives[loading[0]] = "up"
                self.since[loading[0]] = self.now
                self.decide(self.residency.loaded(loading[0], self.now))
            elif ending := self.those("ending"):
                del self.lives[ending[0]]
                self.decide(self.residency.closed(ending[0], self.now))
            elif self.users:
                ticket = min(self.users)
                del self.users[ticket]
                self.decide(self.residency.leave(ticket, self.now))
            else:
                self.now = max(self.now, self.residency.due)
                self.decide(self.residency.tick(self.now))
        raise AssertionError(f"{self.waiting} wait for ever")


TestResidency = ResidencyMachine.TestCase
TestResidency.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def records(*sizes):
    return [ModelRecord(name=str(n), size_bytes=size, idle_seconds=None, pinned=False) for n, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 9), max_size=7), st.integers(0, 6), st.integers(0, 20), st.integers(0, 30), st.data())
def test_who_has_to_go_is_as_good_as_trying_all(sizes, places, memory, size, data):
    """Enough go, none in vain, and none that stands behind the first few that are enough."""
    [model] = records(size)
    others = records(*sizes)
    candidates = data.draw(st.permutations(others))[: data.draw(st.integers(0, len(others)))]
    room = Room(memory, places)
    going = room.leavers(model, others, candidates)

    def enough(leaving):
        staying = [one for one in others if one not in leaving]
        return sum(one.size_bytes for one in staying) + size <= memory and len(staying) + 1 <= places

    subsets = [subset for count in range(len(candidates) + 1) for subset in combinations(candidates, count)]
    first = next((candidates[:count] for count in range(len(candidates) + 1) if enough(candidates[:count])), None)
    assert (first is None) == (not any(map(enough, subsets)))
    if first is None:
        assert going == []
    else:
        assert enough(going)
        assert set(going) <= set(first)
        assert not any(enough(subset) for subset in subsets if set(subset) < set(going))

"""Whose turn it is: priorities, deadlines, fair shares, and nobody starves. No model, no clock."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.engine.queueing import denoise, sequence
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.engine.timeouts import end_overdue
from unmask.engine.urgency import due, overdue_from, urgency
from unmask.engine.waiting import WaitingQueue

MAX_RUNNING, MAX_ROWS, PAGES = 4, 60, 8


def queue_of(*sequences) -> WaitingQueue:
    queue = WaitingQueue()
    for one in sequences:
        queue.append(one)
    return queue


def order(queue: WaitingQueue, now: float = 0.0) -> list[str]:
    """The names in the order of admission; each request ends at once, having cost what it was charged."""
    names = []
    while queue:
        head = queue.head(now)
        assert queue.pop() is head
        head.stats.canvas_tokens = head.canvas.length * head.streams
        queue.settle(head)
        names.append(head.request_id)
    return names


def test_interactive_goes_before_batch_and_arrival_decides_among_equals():
    queue = queue_of(
        sequence("b1", priority="batch"), sequence("i1"), sequence("b2", 1.0, priority="batch"), sequence("i2", 1.0)
    )
    assert order(queue, now=1.0) == ["i1", "i2", "b1", "b2"]


def test_the_earliest_deadline_goes_first_within_a_tenant():
    queue = queue_of(
        sequence("none", 0.0),
        sequence("far", 0.0, deadline=60.0),
        sequence("near", 1.0, deadline=2.0),
        sequence("nearer", 0.5, deadline=2.0),
    )
    assert order(queue, now=1.0) == ["nearer", "near", "none", "far"]


def test_a_deadline_does_not_take_another_tenants_turn():
    """Everybody may claim to be in a hurry."""
    pushy = [sequence(f"pushy{n}", deadline=0.001, tenant="pushy") for n in range(6)]
    calm = [sequence(f"calm{n}", tenant="calm") for n in range(6)]
    names = order(queue_of(*pushy, *calm))
    for n in range(1, 7):
        assert abs(Counter(name[:4] for name in names[: 2 * n])["calm"] - n) <= 1


def test_shares_are_by_work_not_by_number():
    """A tenant of long requests gets as many rows as one of short ones, so fewer requests."""
    long = [sequence(f"long{n}", max_tokens=40, tenant="long") for n in range(10)]  # 44 positions
    short = [sequence(f"short{n}", max_tokens=4, tenant="short") for n in range(60)]  # 8 positions
    queue = queue_of(*long, *short)
    served: Counter[str] = Counter()
    for _ in range(40):
        head = queue.head(0.0)
        queue.pop()
        head.stats.canvas_tokens = head.canvas.length
        queue.settle(head)
        served[head.terms.tenant] += head.stats.canvas_tokens
        if all(any(one.terms.tenant == tenant for one in queue) for tenant in ("long", "short")):
            assert abs(served["long"] - served["short"]) <= 44


def test_what_a_request_really_took_is_charged_when_it_ends():
    """Equal on admission; the one whose forwards came out dear pays for it with later turns."""
    queue = queue_of(*(sequence(f"{tenant}{n}", tenant=tenant) for n in range(8) for tenant in ("dear", "cheap")))
    rows = {"dear": 3 * 8, "cheap": 8}
    names = []
    for _ in range(8):
        head = queue.head(0.0)
        queue.pop()
        head.stats.canvas_tokens = rows[head.terms.tenant]
        queue.settle(head)
        names.append(head.terms.tenant)
    assert Counter(names) == {"dear": 2, "cheap": 6}


def test_who_comes_late_has_saved_nothing_up():
    queue = queue_of(*(sequence(f"early{n}", tenant="early") for n in range(40)))
    for _ in range(20):
        queue.head(0.0)
        head = queue.pop()
        head.stats.canvas_tokens = head.canvas.length
        queue.settle(head)
    for n in range(20):
        queue.append(sequence(f"late{n}", tenant="late"))
    names = order(queue)
    assert abs(sum(name.startswith("late") for name in names[:20]) - 10) <= 1


def test_a_tenant_with_one_request_is_not_held_up_by_a_flood():
    queue = queue_of(*(sequence(f"flood{n}", tenant="flood") for n in range(100)))
    order_so_far = []
    for step in range(20):
        if step == 10:
            queue.append(sequence("single", tenant="single"))
        queue.head(0.0)
        order_so_far.append(queue.pop().request_id)
    assert order_so_far.index("single") <= 11


def test_an_overdue_batch_request_gets_every_fourth_admission():
    queue = queue_of(sequence("old", 0.0, priority="batch"), sequence("older", -1.0, priority="batch"))
    names = []
    for n in range(12):
        queue.append(sequence(f"new{n}", 100.0))
        queue.head(100.0)
        names.append(queue.pop().request_id)
    assert (names.index("older"), names.index("old")) == (3, 7)


def test_the_head_stays_the_head_though_a_sooner_deadline_arrives():
    queue = queue_of(sequence("large", 0.0))
    assert queue.head(0.0).request_id == "large"
    queue.append(sequence("urgent", 0.0, deadline=0.1))
    assert queue.head(0.0).request_id == "large"
    assert queue.remove("large").request_id == "large"
    assert queue.head(0.0).request_id == "urgent"


def test_a_batch_head_gives_way_and_a_closed_one_is_passed_over():
    queue = queue_of(sequence("batch", 0.0, priority="batch"))
    assert queue.head(0.0, batch=False) is None
    assert queue.head(0.0).request_id == "batch"
    queue.append(sequence("interactive", 0.0))
    assert queue.head(0.0).request_id == "interactive"


def test_one_that_has_run_waits_in_its_old_place_and_is_charged_once():
    """What an engine does that takes a running request's memory away."""
    queue = queue_of(sequence("evicted", 0.0, tenant="a"), sequence("other", 1.0, tenant="a"))
    evicted = queue.head(1.0)
    queue.pop()
    evicted.stats.canvas_tokens = 5
    queue.append(evicted)
    assert queue.head(1.0) is evicted
    queue.pop()
    evicted.stats.canvas_tokens = 8
    queue.settle(evicted)
    account = queue._lines["interactive"]._accounts["a"]
    assert (account.served, account.charged) == (8, {})


def test_urgency_sorts_victims():
    fresh_batch, old_batch = sequence("b", 50.0, priority="batch"), sequence("o", 0.0, priority="batch")
    interactive, hurried = sequence("i", 52.0), sequence("h", 55.0, deadline=1.0)
    ranked = sorted((fresh_batch, old_batch, interactive, hurried), key=lambda s: urgency(s.terms, s.arrived, 60.0))
    assert ranked == [hurried, old_batch, interactive, fresh_batch]


def test_what_rules_remember_is_admitted_like_anything_else():
    """Two requests whose rules keep whole distributions do not fit at once; one alone runs whatever it keeps."""
    first, second = sequence("a"), sequence("b")
    first.kept_bytes = second.kept_bytes = 600
    scheduler = Scheduler(MAX_RUNNING, 1000, KeyValueMemory(PageLedger(100)), most_kept=1000)
    for one in (first, second, sequence("c")):
        scheduler.submit(one)
    finished = denoise(scheduler, scheduler.plan(0.0), 0.0)
    assert list(scheduler.running) == ["a"]
    while "a" not in finished:
        finished += denoise(scheduler, scheduler.plan(0.0), 0.0)
    assert [span.sequence.request_id for span in scheduler.plan(0.0)] == ["b", "c"]
    huge = sequence("huge")
    huge.kept_bytes = 5000
    alone = Scheduler(MAX_RUNNING, 1000, KeyValueMemory(PageLedger(100)), most_kept=1000)
    alone.submit(huge)
    assert [span.sequence for span in alone.plan(0.0)] == [huge]


class WaitingMachine(RuleBasedStateMachine):
    """Submits with any terms, steps, cancellations and jumps of time, in any order."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.pages = PageLedger(PAGES)
        self.scheduler = Scheduler(MAX_RUNNING, MAX_ROWS, KeyValueMemory(self.pages))
        self.all: dict[str, object] = {}
        self.alive: set[str] = set()
        self.passed: Counter[str] = Counter()  # admissions of others since a request became overdue
        self.ahead: dict[str, int] = {}  # requests that were overdue for longer when it did
        pop = self.scheduler.waiting.pop

        def watched_pop():
            head = pop()
            self.check_admission(head)
            return head

        self.scheduler.waiting.pop = watched_pop

    def check_admission(self, head):
        waiting = list(self.scheduler.waiting)
        by_age = overdue_from(head.terms, head.arrived) <= self.now
        for other in waiting:
            if overdue_from(other.terms, other.arrived) <= self.now:
                older = [o for o in (*waiting, head) if overdue_from(o.terms, o.arrived) < self.overdue(other)]
                self.ahead.setdefault(other.request_id, len(older))
                self.passed[other.request_id] += self.open(other)
            same = (other.terms.priority, other.terms.tenant) == (head.terms.priority, head.terms.tenant)
            if same and not by_age and head.request_id not in self.blocked_before:
                assert self.due(head) <= self.due(other), "the earliest due of a tenant goes first"

    def overdue(self, one):
        return overdue_from(one.terms, one.arrived)

    def due(self, one):
        return due(one.terms, one.arrived)

    def open(self, one) -> bool:
        return one.terms.priority == "interactive" or self.scheduler._batch_may_join()

    @rule(
        prompt=st.integers(1, 60),
        max_tokens=st.integers(1, 12),
        priority=st.sampled_from(["interactive", "batch"]),
        deadline=st.none() | st.floats(0.001, 100.0),
        tenant=st.sampled_from(["a", "b", "c"]),
        timeout=st.none() | st.floats(1.0, 200.0),
    )
    def submit(self, prompt, max_tokens, priority, deadline, tenant, timeout):
        name = str(len(self.all))
        max_tokens = min(max_tokens, 64 - prompt)
        terms = {"priority": priority, "deadline": deadline, "tenant": tenant, "queue_timeout": timeout}
        self.all[name] = sequence(name, self.now, prompt=prompt, max_tokens=max_tokens, **terms)
        self.scheduler.submit(self.all[name])
        self.alive.add(name)

    @rule(seconds=st.floats(0.001, 50.0))
    def time_passes(self, seconds):
        self.now += seconds
        for one, event in end_overdue(self.scheduler, self.now):
            assert event.last
            assert one.stats.forwards == 0
            assert self.now - one.arrived >= one.terms.queue_timeout
            self.alive.remove(one.request_id)

    @rule()
    def step(self):
        head = self.scheduler.waiting._head
        self.blocked_before = {head.request_id} if head is not None else set()
        spans = self.scheduler.plan(self.now)
        assert bool(spans) == bool(self.scheduler.running)
        names = [span.sequence.request_id for span in spans]
        assert names == [name for name in self.scheduler.running if name in names]
        kinds = {s.terms.priority for s in self.scheduler.running.values()}
        if len(kinds) < 2:
            assert names == list(self.scheduler.running), "who is among equals takes part in every step"
        interactive = {n for n, s in self.scheduler.running.items() if s.terms.priority == "interactive"}
        assert interactive <= set(names), "an interactive request takes part in every step"
        self.alive -= set(denoise(self.scheduler, spans, self.now))

    @rule(data=st.data())
    def cancel(self, data):
        if self.alive:
            name = data.draw(st.sampled_from(sorted(self.alive)))
            assert self.scheduler.remove(name).request_id == name
            self.alive.remove(name)
        assert self.scheduler.remove("unknown") is None

    @invariant()
    def nobody_is_lost_or_doubled(self):
        waiting = [one.request_id for one in self.scheduler.waiting]
        assert len(waiting) == len(self.scheduler.waiting)
        assert sorted([*waiting, *self.scheduler.running]) == sorted(self.alive)

    @invariant()
    def nobody_starves(self):
        for name, passed in self.passed.items():
            if name in {one.request_id for one in self.scheduler.waiting}:
                assert passed <= 4 * (self.ahead[name] + 1) + 1

    @invariant()
    def batch_leaves_room(self):
        batch = [s for s in self.scheduler.running.values() if s.terms.priority == "batch"]
        assert len(batch) <= 3
        assert len(self.scheduler.running) <= MAX_RUNNING

    @invariant()
    def pages_are_accounted_for(self):
        running = self.scheduler.running.values()
        held = {page for one in running for pages in (*one.held.pages, one.held.pinned) for page in pages}
        assert len(held) == self.pages.in_use

    @invariant()
    def accounts_are_those_of_requests(self):
        for priority, line in self.scheduler.waiting._lines.items():
            charged = {name for account in line._accounts.values() for name in account.charged}
            known = [*self.scheduler.running.values(), *self.scheduler.waiting]
            begun = [s for s in known if s.request_id in self.scheduler.running or s.stats.evictions]
            assert charged == {s.request_id for s in begun if s.terms.priority == priority}

    def teardown(self):
        for _ in range(10_000):
            if self.scheduler.idle:
                break
            self.step()
        assert self.scheduler.idle, "everybody gets a turn"
        assert self.pages.in_use == 0


WaitingMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestWaiting = WaitingMachine.TestCase

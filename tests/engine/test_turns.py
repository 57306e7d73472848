"""What batch requests may take beside interactive ones."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.queueing import denoise, sequence
from unmask.engine.held_pages import HeldPages
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.engine.turns import Turns, batch_may_join


def test_alone_everybody_takes_part():
    for priority in ("interactive", "batch"):
        running = [sequence(str(n), priority=priority) for n in range(5)]
        turns = Turns()
        for _ in range(3):
            assert turns.next(running) == running


@given(interactive=st.integers(1, 4), prompts=st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_beside_interactive_rows_batch_adds_half_as_many_and_nobody_is_left_out(interactive, prompts):
    """On average: a large request saves up for its turn, which comes."""
    fast = [sequence(f"i{n}") for n in range(interactive)]
    slow = [sequence(f"b{n}", prompt=prompt, priority="batch") for n, prompt in enumerate(prompts)]
    running, turns = [*slow, *fast], Turns()
    turns_of: Counter[str] = Counter()
    rows, steps = 0, 200
    most = sum(one.most_rows for one in fast)
    for step in range(1, steps + 1):
        attending = turns.next(running)
        assert [one for one in attending if one in fast] == fast
        batch = [one for one in attending if one in slow]
        turns_of.update(one.request_id for one in batch)
        rows += sum(one.most_rows for one in batch)
        assert rows <= 0.5 * most * step
    assert set(turns_of) == {one.request_id for one in slow}
    assert max(turns_of.values()) - min(turns_of.values()) <= 1, "they take turns"


def test_a_stream_of_short_batch_requests_does_not_keep_a_long_one_waiting():
    interactive, long, turns = sequence("i"), sequence("long", max_tokens=40, priority="batch"), Turns()
    turns.next([interactive, long])
    took = 0
    for number in range(60):
        short = sequence(f"s{number}", priority="batch")
        took += long in turns.next([interactive, long, short])
    assert took >= 5


def test_batch_holds_three_quarters_of_slots_rows_and_pages():
    batch = [sequence(str(n), priority="batch") for n in range(6)]
    assert batch_may_join(batch[:5], slots=8, rows=1000, pages=100)
    assert not batch_may_join(batch, slots=8, rows=1000, pages=100)
    rows = sum(one.most_rows for one in batch[:4])
    assert not batch_may_join(batch[:4], slots=100, rows=int(rows / 0.75), pages=100)
    assert batch_may_join(batch[:4], slots=100, rows=int(rows / 0.75) + 2, pages=100)
    for one in batch:
        one.held = HeldPages([[0, 1]])
    assert not batch_may_join(batch[:3], slots=100, rows=1000, pages=8)
    assert batch_may_join([], slots=1, rows=1, pages=1), "one at least"
    assert batch_may_join([sequence("i")] * 50, slots=8, rows=10, pages=1), "what interactive ones hold is theirs"


def test_an_interactive_request_finds_a_slot_at_once():
    scheduler = Scheduler(8, 1000, KeyValueMemory(PageLedger(100)))
    for number in range(20):
        scheduler.submit(sequence(f"b{number}", max_tokens=30, priority="batch"))
    denoise(scheduler, scheduler.plan(0.0), 0.0)
    assert len(scheduler.running) == 6
    scheduler.submit(sequence("i", 0.0))
    assert "i" in [span.sequence.request_id for span in scheduler.plan(0.0)]


class Simulation:
    """A scheduler under a cost model: a step takes as long as ``_FIXED`` rows, and as the rows that it has."""

    _FIXED = 8

    def __init__(self):
        self.now = 0.0
        self.scheduler = Scheduler(16, 4096, KeyValueMemory(PageLedger(200)))
        self.finished = 0

    def step(self) -> list[str]:
        spans = self.scheduler.plan(self.now)
        self.now += self._FIXED + sum(span.rows for span in spans)
        finished = denoise(self.scheduler, spans, self.now)
        self.finished += sum(name.startswith("batch") for name in finished)
        return finished

    def interactive(self, number: int) -> float:
        """How long a short request takes that arrives now."""
        begun, name = self.now, f"interactive{number}"
        self.scheduler.submit(sequence(name, self.now, prompt=8, max_tokens=32))
        while name not in self.step():
            pass
        return self.now - begun


def test_an_interactive_request_takes_at_most_twice_as_long_beside_a_saturated_batch_class():
    simulation = Simulation()
    alone = max(simulation.interactive(number) for number in range(20))
    submitted = 0
    beside = []
    for number in range(20, 120):
        while submitted - simulation.finished < 40:
            simulation.scheduler.submit(sequence(f"batch{submitted}", 0.0, max_tokens=24, priority="batch"))
            submitted += 1
        if number % 3 == 0:
            simulation.step()  # none is there for a while: batch requests have the step to themselves
        beside.append(simulation.interactive(number))
    assert sorted(beside)[95] <= 2 * alone
    assert simulation.finished >= 20, "and the batch class gets on"

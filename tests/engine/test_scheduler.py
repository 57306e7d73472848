"""The scheduler alone: no model, no clock, arbitrary arrivals, endings and cancellations."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.infos import model_info
from unmask.decoding.windows import Decision
from unmask.engine.pages import PageLedger
from unmask.engine.scheduler import Scheduler
from unmask.engine.sequence import Sequence
from unmask.params import GenerationParams
from unmask.resolve import resolve

MAX_RUNNING, MAX_ROWS, PAGES = 4, 60, 6


class SchedulerMachine(RuleBasedStateMachine):
    """Submits, steps and cancels in any order."""

    def __init__(self):
        super().__init__()
        self.pages = PageLedger(PAGES)
        self.scheduler = Scheduler(MAX_RUNNING, MAX_ROWS, self.pages)
        self.alive: list[str] = []
        self.admitted: list[str] = []
        self.submitted: list[str] = []
        self.cancelled: set[str] = set()

    @rule(prompt=st.integers(1, 40), max_tokens=st.integers(1, 20), attention=st.sampled_from(["full", "block_causal"]))
    def submit(self, prompt, max_tokens, attention):
        info = model_info(attention)
        params = resolve(GenerationParams(max_tokens=max_tokens), info, prompt)
        sequence = Sequence(str(len(self.submitted)), [1] * prompt, params, info, 0.0)
        self.scheduler.submit(sequence)
        self.submitted.append(sequence.request_id)
        self.alive.append(sequence.request_id)

    @rule()
    def step(self):
        spans = self.scheduler.plan(0.0)
        assert bool(spans) == bool(self.scheduler.running)
        assert [span.sequence.request_id for span in spans] == list(self.scheduler.running), "one span each, every step"
        assert sum(span.rows for span in spans) <= MAX_ROWS + max((span.rows for span in spans), default=0)
        for span in spans:
            name = span.sequence.request_id
            if name not in self.admitted:
                self.admitted.append(name)
            (segment,) = span.window.segments
            masked = [p for p in range(segment.start, segment.end) if span.sequence.canvas.masked[p]]
            span.sequence.apply(span.window, Decision(masked[:1], [1]), 0.0)
            if span.sequence.canvas.finish is not None:
                self.scheduler.remove(name)
                self.alive.remove(name)

    @rule(data=st.data())
    def cancel(self, data):
        if self.alive:
            name = data.draw(st.sampled_from(self.alive))
            assert self.scheduler.remove(name).request_id == name
            self.alive.remove(name)
            self.cancelled.add(name)
        assert self.scheduler.remove("unknown") is None

    @invariant()
    def nobody_is_lost_or_doubled(self):
        waiting = [sequence.request_id for sequence in self.scheduler.waiting]
        assert sorted([*waiting, *self.scheduler.running]) == sorted(self.alive)

    @invariant()
    def admission_is_strictly_in_order(self):
        order = [name for name in self.submitted if name in self.admitted]
        assert self.admitted == order
        waiting = {sequence.request_id for sequence in self.scheduler.waiting}
        if self.admitted and waiting:
            assert max(map(int, self.admitted)) < min(map(int, waiting))

    @invariant()
    def pages_are_accounted_for(self):
        held = [page for sequence in self.scheduler.running.values() for page in sequence.pages]
        assert len(held) == len(set(held)) == self.pages.in_use
        assert len(self.scheduler.running) <= MAX_RUNNING

    def teardown(self):
        for _ in range(10_000):
            if self.scheduler.idle:
                break
            self.step()
        assert self.scheduler.idle, "everybody gets a turn"
        assert self.pages.in_use == 0


SchedulerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestScheduler = SchedulerMachine.TestCase

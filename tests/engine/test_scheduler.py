"""The scheduler alone: no model, no clock, arbitrary arrivals, endings, cancellations, and too few pages."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.infos import model_info
from unmask.decoding.windows import Decision, Outlook
from unmask.engine.memory import KeyValueMemory
from unmask.engine.pages import PAGE_TOKENS, PageLedger, pages_for
from unmask.engine.scheduler import Scheduler, Span
from unmask.engine.sequence import Sequence
from unmask.params import GenerationParams
from unmask.resolve import resolve

CONTEXT, MAX_RUNNING, MAX_ROWS, PAGES = 160, 4, 60, 11
KINDS = ("full", "block_causal", "from_start", "sub_block", "renoise")


class SchedulerMachine(RuleBasedStateMachine):
    """Submits, steps and cancels in any order.

    ``contents`` is what a cache would hold: for every slot the tokens that its keys and values were computed from.
    """

    def __init__(self):
        super().__init__()
        self.pages = PageLedger(PAGES)
        self.scheduler = Scheduler(MAX_RUNNING, MAX_ROWS, KeyValueMemory(self.pages))
        self.contents: dict[int, object] = {}
        self.alive: dict[str, Sequence] = {}
        self.count = 0
        self.now = 0.0

    @initialize(kind=st.sampled_from(KINDS))
    def load(self, kind):
        self.info = model_info(kind, context_length=CONTEXT)

    @rule(
        prompt=st.sampled_from([1, 31, 32, 33, 64, 70, 100, 120]),
        tail=st.integers(0, 2),
        max_tokens=st.sampled_from([1, 7, 40, 120]),
        block_length=st.sampled_from([4, 8, 32, 12]),
        guided=st.integers(0, 5),
    )
    def submit(self, prompt, tail, max_tokens, block_length, guided):
        info = self.info
        cfg_scale = 1.0 if guided == 5 and info.mask_id is not None else None
        params = GenerationParams(
            max_tokens=min(max_tokens, CONTEXT - prompt), block_length=block_length, cfg_scale=cfg_scale
        )
        prompt_ids = ([1] * prompt + [2] * tail)[-prompt:]
        sequence = Sequence(str(self.count), prompt_ids, resolve(params, info, prompt), info, self.now)
        self.now += 0.001
        self.scheduler.submit(sequence)
        self.alive[sequence.request_id] = sequence
        self.count += 1

    @rule()
    def step(self):
        spans = self.scheduler.plan(self.now)
        assert bool(spans) or not self.alive, "somebody always runs"
        assert len({span.sequence.request_id for span in spans}) == len(spans)
        rows = [span.rows * span.sequence.streams for span in spans]
        assert sum(rows) <= MAX_ROWS + max(rows, default=0)
        for copy in [copy for span in spans for copy in span.copies]:
            for offset in range(PAGE_TOKENS):
                source, target = (page * PAGE_TOKENS + offset for page in (copy.source, copy.target))
                self.contents[target] = self.contents.get(source)
        for span in spans:
            self.forward(span)
        for span in spans:
            self.commit(span)

    def forward(self, span: Span) -> None:
        """Write what the window computes, and check what it reads."""
        sequence, window = span.sequence, span.window
        tokens = sequence.canvas.tokens.tolist()
        for stream in range(sequence.streams):
            slots = sequence.held.slots(bool(stream))
            assert len(slots) >= window.key_end
            ends = [window.key_end] * span.rows if window.visible is None else window.visible.tolist()
            for position, end in zip(range(window.start, window.end), ends, strict=True):
                self.contents[int(slots[position])] = (stream, tuple(tokens[:end]))
            if sequence.denoiser.unit != 0 and sequence.params.cache == "exact":
                for position in range(window.start):
                    stored_stream, stored = self.contents[int(slots[position])]
                    assert stored_stream == stream
                    assert list(stored) == tokens[: len(stored)], "keys and values of other tokens"
                    assert len(stored) > position

    def commit(self, span: Span) -> None:
        sequence, window = span.sequence, span.window
        decision = Decision([], [])
        if window.segments:
            segment = window.segments[0]
            masked = [p for p in range(segment.start, segment.end) if sequence.canvas.masked[p]]
            decision = Decision(masked[:2], [3] * len(masked[:2]))
            if sequence.denoiser.unit == 1:
                positions = np.arange(segment.start, segment.end)
                decision.outlook = Outlook(positions, positions * 0 + 3, positions * 0.0)
        sequence.apply(window, decision, self.now)
        if sequence.canvas.finish is not None:
            self.scheduler.remove(sequence.request_id)
            del self.alive[sequence.request_id]

    @rule(data=st.data())
    def cancel(self, data):
        if self.alive:
            name = data.draw(st.sampled_from(sorted(self.alive)))
            assert self.scheduler.remove(name).request_id == name
            del self.alive[name]
        assert self.scheduler.remove("unknown") is None

    @invariant()
    def nobody_is_lost_or_doubled(self):
        waiting = [sequence.request_id for sequence in self.scheduler.waiting]
        assert sorted([*waiting, *self.scheduler.running]) == sorted(self.alive)
        assert len(self.scheduler.running) <= MAX_RUNNING

    @invariant()
    def who_came_first_is_never_behind(self):
        running = [sequence.arrived for sequence in self.scheduler.running.values()]
        waiting = [sequence.arrived for sequence in self.scheduler.waiting]
        assert not running or not waiting or min(running) < min(waiting), "the oldest is never evicted for another"

    @invariant()
    def pages_are_accounted_for(self):
        held: dict[int, int] = {}
        for sequence in self.scheduler.running.values():
            for page in [page for stream in sequence.held.pages for page in stream] + sequence.held.pinned:
                held[page] = held.get(page, 0) + 1
            assert len(sequence.held.pages[0]) <= pages_for(sequence.canvas.length)
        assert len(held) == self.pages.in_use
        assert all(self.pages._users[page] == users for page, users in held.items())
        assert self.pages.in_use + self.pages.idle + self.pages.free == PAGES

    def teardown(self):
        for _ in range(10_000):
            if self.scheduler.idle:
                break
            self.step()
            self.pages_are_accounted_for()
        assert self.scheduler.idle, "everybody gets a turn"
        assert self.pages.in_use == 0


SchedulerMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
TestScheduler = SchedulerMachine.TestCase

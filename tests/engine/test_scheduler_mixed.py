"""The scheduler with everything at once: priorities, tenants, timeouts, shadows, pauses, prefixes, and evictions."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.engine.test_scheduler import CONTEXT, PAGES, SchedulerMachine
from unmask.engine.sequence import Sequence
from unmask.engine.timeouts import end_overdue
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.terms import PRIORITIES, Terms


class MixedMachine(SchedulerMachine):
    """As its parent, of which it replaces how requests come, and what holds only where all are equal."""

    @rule(
        prompt=st.sampled_from([1, 31, 32, 33, 64, 70, 96, 120, 159]),
        tail=st.integers(0, 2),
        max_tokens=st.sampled_from([1, 7, 40, 120]),
        block_length=st.sampled_from([4, 5, 8, 12, 32, 48, 160]),
        option=st.integers(0, 6),
        terms=st.builds(
            Terms,
            priority=st.sampled_from(PRIORITIES),
            tenant=st.sampled_from("abc"),
            deadline=st.sampled_from([None, 0.001, 5.0]),
            timeout=st.sampled_from([None, None, 0.05, 20.0]),
            queue_timeout=st.sampled_from([None, None, 0.02]),
        ),
    )
    def submit(self, prompt, tail, max_tokens, block_length, option, terms):
        info = self.info
        asked = {"max_tokens": min(max_tokens, CONTEXT - prompt), "block_length": block_length}
        if option == 6 and info.mask_id is not None:
            asked["cfg_scale"] = 1.0
        elif option == 5 and "wino" in info.rules:
            asked["rule"] = "wino"
        elif option == 4:
            asked["cache"] = [cache for cache in info.caches if cache != "delayed"][-1]  # it computes single rows
        prompt_ids = ([1] * prompt + [2] * tail)[-prompt:]
        params = resolve(GenerationParams(**asked), info, prompt)
        sequence = Sequence(str(self.count), prompt_ids, params, info, self.now, terms=terms)
        self.now += 0.001
        self.scheduler.submit(sequence)
        self.alive[sequence.request_id] = sequence
        self.count += 1

    @rule()
    def step(self):
        """Batch requests may pause for as many steps as their rows take to be earned, none for good."""
        before = sum(sequence.stats.forwards for sequence in self.alive.values())
        alive = set(self.alive)
        for _ in range(2 * CONTEXT):
            self.one_step()
            if alive - set(self.alive) or sum(s.stats.forwards for s in self.alive.values()) > before or not alive:
                return
        raise AssertionError("nothing moves")

    def one_step(self):
        self.now += 0.001
        spans = self.scheduler.plan(self.now)
        for copy in [copy for span in spans for copy in span.copies]:
            for offset in range(32):
                source, target = (page * 32 + offset for page in (copy.source, copy.target))
                self.contents[target] = self.contents.get(source)
        for span in spans:
            self.forward(span)
        for span in spans:
            self.commit(span)

    def forward(self, span):
        """As in its parent, for spans without shadows."""
        slots = span.sequence.held.shadow_slots(len(span.window.shadows))
        assert len(slots) == len(span.window.shadows)
        span.window.shadows = span.window.shadows[:0]
        super().forward(span)

    @rule(later=st.sampled_from([0.03, 15.0, 70.0]))
    def wait(self, later):
        """Time goes by: requests are overdue, or their time is over."""
        self.now += later
        for sequence, event in end_overdue(self.scheduler, self.now):
            assert event.last
            assert not sequence.held.pages
            del self.alive[sequence.request_id]

    @rule(data=st.data())
    def evict(self, data):
        """At any time, whoever can be."""
        running = [s for s in self.scheduler.running.values() if s.denoiser.interruptible]
        if running:
            self.scheduler._evict(data.draw(st.sampled_from(running)))

    @invariant()
    def who_came_first_is_never_behind(self):
        """Not where some are more urgent."""

    @invariant()
    def pages_are_accounted_for(self):
        held: dict[int, int] = {}
        for sequence in self.scheduler.running.values():
            own = [page for stream in sequence.held.pages for page in stream]
            for page in own + sequence.held.pinned + sequence.held.shadows:
                held[page] = held.get(page, 0) + 1
        assert len(held) == self.pages.in_use
        assert all(self.pages._users[page] == users for page, users in held.items())
        assert self.pages.in_use + self.pages.idle + self.pages.free == PAGES

    @invariant()
    def the_prefix_cache_holds_what_it_keeps(self):
        prefixes = self.scheduler._memory.prefixes
        kept = [page for unit in prefixes._units.values() for page in unit.pages]
        assert len(kept) == len(set(kept)) == sum(self.pages._kept)
        assert set(prefixes._users) == set(self.scheduler.running)
        for unit in prefixes._units.values():
            before = unit.key[0]
            assert isinstance(before, tuple) or prefixes._units.get(before.key) is before, "a unit behind nothing"

    @invariant()
    def accounts_are_of_those_who_are_here(self):
        for line in self.scheduler.waiting._lines.values():
            for account in line._accounts.values():
                assert set(account.charged) <= set(self.alive)
                assert {entry[2].request_id for entry in account.waiting} <= set(self.alive)


MixedMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestMixedScheduler = MixedMachine.TestCase

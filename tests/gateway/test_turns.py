"""Models that do not fit together take turns: few swaps, and nobody starves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.world import World, closed_loop
from unmask.errors import AllModelsBusyError, CircuitOpenError, EngineUnavailableError, InsufficientMemoryError
from unmask.gateway.residency import End, Grant, Load, Refuse, Residency, ResidencyLimits

HOLD, LINGER = 10.0, 0.5


def residency(sizes: dict[str, int], memory: int = 10, *, idle: float | None = None, **limits) -> Residency:
    limits = {"hold_seconds": HOLD, "linger_seconds": LINGER, "max_waiting": 10_000} | limits
    made = Residency(ResidencyLimits(memory_bytes=memory, **limits))
    for name, size in sizes.items():
        made.add(name, size_bytes=size, idle_seconds=idle)
    return made


@pytest.mark.parametrize("load", [2.0, 30.0])
def test_two_models_under_load_are_swapped_once_in_a_turn(load):
    """Clients of either ask again at once; memory holds one of the two."""
    world = World(residency({"a": 8, "b": 8}), {"a": load, "b": load})
    for name in "aabb":
        closed_loop(world, name, seconds=0.3, until=1000.0)
    world.run(until=1000.0)
    turn = max(HOLD, load)
    assert len(world.order) <= 1000 / (turn + load) + 1
    assert world.order[:4] == ["a", "b", "a", "b"]
    assert max(world.waits.values()) <= turn + load + 2 * world.stops + 0.3 + load
    assert len(world.waits) > 0.45 * 1000 / 0.3 * 2, "nearly half of the time two clients are served"


def test_requests_that_alternate_do_not_swap_each_time():
    """A new one every 100 ms, for either model in turn."""
    world = World(residency({"a": 8, "b": 8}), {"a": 1.0, "b": 1.0})
    for number in range(2000):
        world.ask(number * 0.1, "ab"[number % 2], seconds=0.25)
    world.run()
    assert len(world.waits) == 2000
    assert len(world.order) <= 200 / HOLD + 2


def test_a_client_that_alternates_by_itself_waits_for_little_more_than_the_loads():
    world = World(residency({"a": 8, "b": 8}), {"a": 1.0, "b": 1.0})
    left = ["b", "a"] * 10

    def again():
        if left:
            world.ask(world.now, left.pop(), 0.3, again)

    world.at(0.0, again)
    world.run()
    assert max(world.waits.values()) == pytest.approx(LINGER + world.stops + 1.0)


requests = st.lists(
    st.tuples(st.sampled_from([0.0, 0.01, 0.3, 1.0, 7.0]), st.sampled_from("abcd"), st.sampled_from([0.05, 1.0, 6.0])),
    min_size=1,
    max_size=120,
)


@settings(deadline=None, max_examples=300)
@given(
    st.tuples(*[st.integers(1, 10)] * 4),
    st.tuples(*[st.sampled_from([0.1, 3.0, 25.0])] * 4),
    st.sampled_from([1, 2, None]),
    requests,
)
def test_nobody_starves(sizes, loads, places, arrivals):
    world = World(
        residency(dict(zip("abcd", sizes, strict=True)), max_resident=places), dict(zip("abcd", loads, strict=True))
    )
    time = 0.0
    for gap, name, seconds in arrivals:
        time += gap
        world.ask(time, name, seconds)
    world.run()
    assert len(world.waits) == len(arrivals)
    step = max(HOLD, *loads) + 6.0 + world.stops + max(loads)
    for ticket, wait in world.waits.items():
        assert wait <= (world.ahead[ticket] + 1) * step, "as the module says"


@settings(deadline=None, max_examples=15)
@given(st.lists(st.permutations("abc"), min_size=100, max_size=300), st.sampled_from([0.02, 0.1]))
def test_loads_are_bounded_by_time_not_by_requests(rounds, gap):
    """However the demand alternates, as long as each model is asked for while it is there."""
    world = World(residency(dict.fromkeys("abc", 8)), dict.fromkeys("abc", 0.5))
    names = [name for one in rounds for name in one]
    for number, name in enumerate(names):
        world.ask(number * gap, name, 0.05)
    world.run()
    assert len(world.waits) == len(names)
    assert len(world.order) <= 3 + len(names) * gap / HOLD + 2, "the last ones need no whole turn"


def test_a_model_with_running_requests_is_never_the_one_that_goes():
    """B is asked for while A answers, for longer than any timer and any turn."""
    world = World(residency({"a": 8, "b": 8}, idle=1.0), {"a": 1.0, "b": 1.0})
    world.ask(0.0, "a", 500.0)
    world.ask(2.0, "b", 1.0)
    world.ask(5.0, "a", 1.0)  # within its turn
    world.ask(20.0, "a", 1.0)  # after it
    world.run()
    assert world.order == ["a", "b", "a"]
    assert world.ended[0] == (501.0, "a")
    assert world.waits[2] == 0.0
    assert world.waits[1] == pytest.approx(500.2)


def test_the_least_recently_used_idle_model_goes_and_no_more_than_needed():
    world = World(residency({"a": 3, "b": 3, "c": 3, "d": 3, "e": 6}), dict.fromkeys("abcde", 1.0))
    for time, name in [(0, "a"), (2, "b"), (4, "c"), (6, "a")]:
        world.ask(time, name, 0.5)
    world.ask(10, "d", 0.5)
    world.run()
    assert [name for _, name in world.ended] == ["b"]
    world.ask(20, "e", 0.5)
    world.run()
    assert [name for _, name in world.ended] == ["b", "c", "a"], "d was used last, and may stay"


def test_an_idle_model_goes_before_any_busy_one_has_to():
    made = residency({"a": 5, "b": 5, "c": 5})
    for ticket, name in enumerate("ab"):
        made.ask(ticket, name, 0.0)
        made.loaded(name, 1.0)
    made.leave(1, 2.0)
    assert made.ask(2, "c", 3.0) == [End("b")]
    assert made.ask(3, "a", 100.0) == [Grant(3, "a")]


def test_a_small_model_does_not_go_in_vain():
    """It was used less recently, and its room would not be enough; the large one's alone is."""
    world = World(residency({"small": 2, "large": 7, "new": 8}), dict.fromkeys(["small", "large", "new"], 1.0))
    for time, name in [(0, "small"), (2, "large"), (9, "new")]:
        world.ask(time, name, 0.5)
    world.run()
    assert [name for _, name in world.ended] == ["large"]


def test_a_small_model_does_not_overtake_a_large_one():
    world = World(residency({"a": 8, "large": 10, "small": 2}), {"a": 1.0, "large": 1.0, "small": 1.0})
    world.ask(0.0, "a", 60.0)
    world.ask(3.0, "large", 1.0)
    world.ask(4.0, "small", 1.0)
    world.run()
    assert world.order == ["a", "large", "small"]


def test_who_waited_before_the_other_was_asked_for_does_not_wait_behind_it():
    """A request for A had to wait behind one for B, which leaves; one for C came after it."""
    made = residency({"a": 8, "b": 8, "c": 8})
    made.ask(1, "a", 0.0)
    made.loaded("a", 0.0)
    made.ask(2, "b", 0.0)
    made.tick(10.0)
    assert made.ask(3, "a", 11.0) == []
    assert made.ask(4, "c", 12.0) == []
    assert made.leave(2, 30.0) == [Grant(3, "a")]
    assert made.ask(5, "a", 30.0) == [], "whose turn is over now"
    assert made.leave(1, 31.0) == []
    assert made.leave(3, 32.0) == [End("a")]


def test_a_request_that_comes_before_the_idle_model_went_is_served_if_its_turn_lasts():
    """The timer is late, or at the very time."""
    made = residency({"a": 8, "b": 8})
    made.ask(1, "a", 0.0)
    made.loaded("a", 0.0)
    made.ask(2, "b", 1.0)
    made.leave(1, 2.0)
    assert made.due == 2.5
    assert made.ask(3, "a", 2.5) == [Grant(3, "a")]
    assert made.leave(3, 9.9) == []
    assert made.due == 10.0, "when its turn is over"
    assert made.ask(4, "a", 10.0) == [End("a")]


def test_of_busy_models_the_one_that_is_there_for_longest_gives_way():
    made = residency({"a": 5, "b": 5, "c": 5})
    made.ask(1, "b", 0.0)
    made.loaded("b", 1.0)
    made.ask(2, "a", 1.0)
    made.loaded("a", 2.0)
    made.ask(3, "c", 3.0)
    assert made.ask(4, "a", 50.0) == [Grant(4, "a")]
    assert made.ask(5, "b", 50.0) == []
    made.leave(2, 51.0)
    assert made.leave(4, 51.0) == []
    assert made.leave(1, 51.1) == [End("b")]


def test_what_can_never_be_loaded_is_refused_at_once_with_sizes():
    made = residency({"small": 2 << 30, "big": 11 << 30}, memory=10 << 30)
    [refusal] = made.ask(1, "big", 0.0)
    assert isinstance(refusal.error, InsufficientMemoryError)
    assert refusal.error.status == 507
    assert "11 GiB" in str(refusal.error)
    assert "10 GiB" in str(refusal.error)
    made.add("kept", size_bytes=9 << 30, idle_seconds=1.0, pinned=True)
    [refusal] = made.ask(2, "small", 0.0)
    assert "9 GiB are kept for 'kept'" in str(refusal.error)
    with pytest.raises(InsufficientMemoryError):
        made.add("too much", size_bytes=2 << 30, idle_seconds=1.0, pinned=True)
    places = residency({"a": 1}, max_resident=1)
    places.add("kept", size_bytes=1, idle_seconds=None, pinned=True)
    [refusal] = places.ask(1, "a", 0.0)
    assert "Only 1 models may be in memory" in str(refusal.error)


def test_the_queue_is_bounded():
    """Two models are busy; for a third so many wait, and the next is told when to come again."""
    made = residency({"a": 5, "b": 5, "c": 5, "d": 5}, max_waiting=2)
    for ticket, name in enumerate("ab"):
        assert made.ask(ticket, name, 0.0) == [Load(name)]
        made.loaded(name, 1.0)
    assert made.ask(2, "c", 2.0) == []
    assert made.ask(3, "c", 3.0) == []
    [refusal] = made.ask(4, "c", 4.0)
    assert isinstance(refusal.error, AllModelsBusyError)
    assert (refusal.error.status, refusal.error.retry_after) == (503, 10)
    assert made.ask(5, "d", 4.0) == [], "another model's queue is its own"
    assert made.ask(6, "a", 5.0) == [Grant(6, "a")]
    made.leave(3, 6.0)
    assert made.ask(7, "c", 7.0) == []


def test_one_load_however_many_ask_and_none_if_all_leave():
    made = residency({"a": 5})
    assert [decision for ticket in range(50) for decision in made.ask(ticket, "a", 0.0)] == [Load("a")]
    assert [decision for ticket in range(49) for decision in made.leave(ticket, 1.0)] == []
    assert made.leave(49, 2.0) == [End("a")]
    assert made.ask(50, "a", 2.5) == [], "the load that was broken off must be gone first"
    assert made.closed("a", 3.0) == [Load("a")]
    assert made.loaded("a", 4.0) == [Grant(50, "a")]


def test_idle_time_counts_only_while_nobody_uses_or_loads_it():
    world = World(residency({"a": 5}, idle=3.0), {"a": 100.0})
    world.ask(0.0, "a", 50.0)
    world.ask(152.0, "a", 1.0)
    world.run()
    assert world.order == ["a"]
    assert world.ended == [(156.0, "a")]


def test_a_pinned_model_stays():
    made = residency({"a": 8})
    made.add("kept", size_bytes=2, idle_seconds=1.0, pinned=True)
    made.ask(1, "kept", 0.0)
    made.loaded("kept", 1.0)
    made.leave(1, 2.0)
    assert made.due is None
    made.ask(2, "a", 100.0)
    made.loaded("a", 101.0)
    made.leave(2, 102.0)
    made.add("b", size_bytes=2, idle_seconds=None)
    assert made.ask(3, "b", 110.0) == [End("a")], "although it was used last"
    assert made.state("kept", 110.0).state == "ready"
    assert made.keep("kept", 0.0, 112.0) == [End("kept")], "unless it is told to go"


def lone(idle=30.0, *, ticket=1) -> Residency:
    """One model, in use since 0 s."""
    made = residency({"a": 5}, idle=idle)
    made.ask(ticket, "a", 0.0)
    made.loaded("a", 0.0)
    return made


def test_keep_alive():
    made = lone()
    assert made.keep("a", 100.0, 1.0) == []
    made.leave(1, 10.0)
    assert made.due == 110.0
    made.keep("a", None, 20.0)
    assert made.due is None
    assert made.state("a", 20.0).expires_at is None
    made.keep("a", 5.0, 21.0)
    assert made.due is None, "it was used 11 s ago: it goes"
    assert made.state("a", 21.0).state == "stopping"
    made.closed("a", 22.0)
    made.ask(2, "a", 23.0)
    made.loaded("a", 24.0)
    made.leave(2, 25.0)
    assert made.due == 55.0, "what was said of another life is forgotten"


def test_to_keep_it_for_no_time_ends_it_when_it_is_idle():
    made = lone()
    made.ask(2, "a", 1.0)
    assert made.keep("a", 0.0, 2.0) == []
    assert made.leave(1, 3.0) == []
    assert made.leave(2, 4.0) == [End("a")]


def test_to_keep_what_is_not_there_is_nothing():
    made = residency({"a": 5}, idle=30.0)
    made.keep("a", 0.0, 0.0)
    made.ask(1, "a", 1.0)
    made.loaded("a", 2.0)
    assert made.leave(1, 3.0) == []


def test_a_model_kept_for_ever_still_makes_room_for_another():
    made = residency({"a": 8, "b": 8}, idle=30.0)
    made.ask(1, "a", 0.0)
    made.loaded("a", 0.0)
    made.keep("a", None, 0.0)
    made.leave(1, 1.0)
    assert made.ask(2, "b", 100.0) == [End("a")]


def test_failures_are_retried_later_and_later_and_then_refused():
    made = residency({"a": 5})
    now, ticket, waits = 0.0, 0, []
    for _ in range(8):
        decisions = made.ask(ticket := ticket + 1, "a", now)
        if decisions and isinstance(decisions[0], Refuse):
            error = decisions[0].error
            assert isinstance(error, CircuitOpenError)
            assert f"{error.retry_after} s" in str(error)
            assert "no such file" in str(error)
            waits.append(error.retry_after)
            now += error.retry_after
            decisions = made.ask(ticket := ticket + 1, "a", now)
        elif not decisions:
            waits.append(made.due - now)
            now = made.due
            decisions = made.tick(now)
        assert decisions == [Load("a")]
        [refusal] = made.load_failed("a", EngineUnavailableError("no such file"), now)
        assert str(refusal.error) == "no such file"
    assert waits == [1, 2, 4, 8, 16, 32, 60]
    now += 60
    assert made.ask(98, "a", now) == [Load("a")]
    assert made.loaded("a", now) == [Grant(98, "a")], "and works again, without a restart"
    assert made.ask(99, "a", now) == [Grant(99, "a")]
    assert made.state("a", now).failure == "no such file"
    assert made.state("a", now + 60).failure == ""
    made.crashed("a", "killed", now + 60)
    made.closed("a", now + 60)
    assert made.state("a", now + 60).retry_at == now + 61, "the first failure again"


def test_failures_are_forgotten_once_a_model_was_stopped_in_good_order():
    made = residency({"a": 5}, idle=1.0)
    made.ask(1, "a", 0.0)
    made.load_failed("a", EngineUnavailableError("no luck"), 0.0)
    made.ask(2, "a", 1.0)
    made.loaded("a", 2.0)
    made.leave(2, 3.0)
    assert made.state("a", 3.0).failure == "no luck"
    assert made.tick(4.0) == [End("a")]
    made.closed("a", 5.0)
    assert (made.state("a", 5.0).state, made.state("a", 5.0).failure) == ("absent", "")


def test_a_load_that_was_broken_off_says_nothing():
    made = residency({"a": 5})
    made.ask(1, "a", 0.0)
    made.load_failed("a", EngineUnavailableError("no luck"), 0.0)
    made.ask(2, "a", 1.0)
    assert made.leave(2, 1.5) == [End("a")]
    made.closed("a", 2.0)
    assert (made.state("a", 2.0).state, made.state("a", 2.0).failure) == ("failed", "no luck")
    assert made.ask(3, "a", 2.0) == [Load("a")]


def test_one_that_dies_on_its_first_request_each_time_is_found_out():
    made = residency({"a": 5})
    now = 0.0
    for ticket in range(3):
        made.ask(ticket, "a", now)
        now = made.due or now
        made.tick(now)
        made.loaded("a", now)
        made.crashed("a", "signal 11", now)
        made.leave(ticket, now)
        made.closed("a", now)
    [refusal] = made.ask(3, "a", now)
    assert isinstance(refusal.error, CircuitOpenError)
    assert "signal 11" in str(refusal.error)


def test_a_death_is_nobody_elses():
    made = residency({"a": 5, "b": 5})
    for ticket, name in enumerate("aabb"):
        made.ask(ticket, name, 0.0)
    made.loaded("a", 1.0)
    made.loaded("b", 1.0)
    assert made.crashed("a", "killed", 2.0) == []
    a, b = made.states(2.0)
    assert (a.state, a.users, a.failure) == ("stopping", 0, "killed")
    assert (b.state, b.users, b.failure) == ("ready", 2, "")
    assert made.leave(0, 3.0) == []
    made.closed("a", 4.0)
    assert made.state("a", 4.0).state == "failed"
    assert made.ask(9, "a", 5.0) == [Load("a")]

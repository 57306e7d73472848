"""Models that are loaded when they are asked for, with loads and deaths that the test brings about."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import pytest

from tests.gateway.virtual_time import at_virtual_time
from unmask.errors import (
    AllModelsBusyError,
    CircuitOpenError,
    EngineUnavailableError,
    InsufficientMemoryError,
    InvalidCheckpointError,
    ModelLoadTimeoutError,
    ModelNotFoundError,
)
from unmask.gateway.residency import ResidencyLimits
from unmask.gateway.supervisor import Supervisor


class FakeResident:
    def __init__(self, name: str, garage: Garage) -> None:
        self.name, self.garage = name, garage
        self.dead = asyncio.get_running_loop().create_future()
        self.closes = 0

    @property
    def alive(self) -> bool:
        return not self.dead.done()

    async def close(self) -> None:
        self.closes += 1
        await asyncio.sleep(self.garage.closing)
        if self.alive:
            self.dead.set_result("closed")
        self.garage.resident.remove(self.name)
        if self.garage.fails_to_close:
            raise OSError("it did not want to")

    async def wait_closed(self) -> str:
        return await asyncio.shield(self.dead)

    def die(self, reason: str) -> None:
        self.dead.set_result(reason)


class Garage:
    """Makes residents, and sees which of them are in memory."""

    def __init__(self, memory=10, *, sizes=None, idle=60.0, **limits) -> None:
        limits = {"hold_seconds": 10.0, "linger_seconds": 0.5} | limits
        self.supervisor: Supervisor[FakeResident] = Supervisor(ResidencyLimits(memory_bytes=memory, **limits))
        self.sizes = sizes or {"a": 6, "b": 6}
        self.seconds, self.closing, self.stubborn = 4.0, 0.5, False
        self.fails_to_close = False
        self.errors: list[Exception] = []  # that the next loads meet
        self.resident: list[str] = []
        self.made: list[FakeResident] = []
        self.loads: Counter[str] = Counter()
        self.broken_off = 0
        for name, size in self.sizes.items():
            self.supervisor.add(name, self.loader(name), size_bytes=size, idle_seconds=idle)

    def loader(self, name):
        async def load(progress):
            self.loads[name] += 1
            self.resident.append(name)
            assert len(set(self.resident)) == len(self.resident)
            assert sum(self.sizes[one] for one in self.resident) <= 10
            try:
                for quarter in range(4):
                    progress(quarter / 4)
                    await asyncio.sleep(self.seconds / 4)
                if self.errors:
                    raise self.errors.pop(0)
            except asyncio.CancelledError:
                self.broken_off += 1
                if not self.stubborn:
                    await asyncio.sleep(self.closing)
                    self.resident.remove(name)
                    raise
            except Exception:
                self.resident.remove(name)
                raise
            self.made.append(FakeResident(name, self))
            return self.made[-1]

        return load

    async def use(self, name, seconds=1.0):
        """A request; the time that it had to wait."""
        start = now()
        async with self.supervisor.hold(name) as resident:
            wait = now() - start
            assert resident.name == name
            assert resident.alive
            await asyncio.sleep(seconds)
            assert resident.alive, "a model that is held stays"
        return wait

    def state(self, name):
        return next(state for state in self.supervisor.states() if state.name == name)


def now():
    return asyncio.get_running_loop().time()


@at_virtual_time
async def test_one_load_serves_all_who_ask():
    garage = Garage()
    waits = await asyncio.gather(*(garage.use("a") for _ in range(20)))
    assert waits == [4.0] * 20
    assert garage.loads == {"a": 1}
    assert await garage.use("a") == 0.0
    await garage.supervisor.close()
    assert garage.resident == []


@at_virtual_time
async def test_a_load_tells_how_far_it_is():
    garage = Garage()
    request = asyncio.create_task(garage.use("a"))
    seen = []
    for _ in range(5):
        await asyncio.sleep(0.9)
        seen.append(garage.supervisor.loading("a"))
    assert seen == [0.0, 0.25, 0.5, 0.75, None]
    await request


@at_virtual_time
async def test_states_tell_who_is_there_and_until_when():
    garage = Garage()
    request = asyncio.create_task(garage.use("a", 2.0))
    other = asyncio.create_task(garage.use("b", 2.0))
    await asyncio.sleep(1.0)
    a, b = garage.supervisor.states()
    assert (a.name, a.state, a.users, a.waiting, a.size_bytes, a.loads) == ("a", "loading", 0, 1, 6, 1)
    assert (b.state, b.waiting, b.loads) == ("absent", 1, 0)
    assert a.since == pytest.approx(time.time() - 1.0, abs=0.5)
    await asyncio.sleep(4.0)
    assert (garage.state("a").state, garage.state("a").users) == ("ready", 1)
    await asyncio.gather(request, other)
    assert garage.state("a").state == "absent"
    assert garage.state("b").expires_at == pytest.approx(time.time() + 60.0, abs=0.5)


@at_virtual_time
async def test_an_idle_model_goes_by_itself():
    garage = Garage(idle=7.0)
    await garage.use("a")
    await asyncio.sleep(6.9)
    assert garage.resident == ["a"]
    await asyncio.sleep(0.7)
    assert garage.resident == []
    assert garage.state("a").state == "absent"


@at_virtual_time
async def test_nothing_wakes_up_while_nothing_is_due(monkeypatch):
    garage = Garage(idle=1e6)
    ticks = []
    tick = garage.supervisor._residency.tick
    monkeypatch.setattr(garage.supervisor._residency, "tick", lambda now: ticks.append(now) or tick(now))
    await garage.use("a")
    await asyncio.sleep(2e6)
    assert ticks == [1e6 + 5.0]


@at_virtual_time
async def test_who_leaves_while_waiting_leaves_the_queue_and_the_last_one_breaks_the_load_off():
    garage = Garage()
    requests = [asyncio.create_task(garage.use("a")) for _ in range(3)]
    await asyncio.sleep(1.0)
    for left, request in zip((2, 1, 0), requests, strict=True):
        request.cancel()
        await asyncio.sleep(0)
        assert garage.state("a").waiting == left
    assert garage.state("a").state == "stopping"
    await asyncio.sleep(1.0)
    assert (garage.state("a").state, garage.resident, garage.broken_off) == ("absent", [], 1)
    assert await garage.use("a") == pytest.approx(4.0)


@pytest.mark.parametrize("turns", range(9))
@at_virtual_time
async def test_who_leaves_while_the_load_begins(turns):
    """So many turns of the event loop after the request came."""
    garage = Garage()
    request = asyncio.create_task(garage.use("a"))
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.sleep(0.6)
    assert (garage.state("a").state, garage.resident) == ("absent", [])
    assert await garage.use("a") == pytest.approx(4.0)


@at_virtual_time
async def test_a_load_that_does_not_let_itself_be_broken_off_is_closed():
    garage = Garage()
    garage.stubborn = True
    request = asyncio.create_task(garage.use("a"))
    await asyncio.sleep(1.0)
    request.cancel()
    await asyncio.sleep(1.0)
    assert (garage.state("a").state, garage.resident) == ("absent", [])
    assert garage.made[0].closes == 1


@at_virtual_time
async def test_who_leaves_just_as_it_gets_the_model_leaves_it_free():
    garage = Garage()
    request = asyncio.create_task(garage.use("a"))
    while garage.state("a").state != "ready":
        await asyncio.sleep(0.25 if garage.state("a").state == "absent" or now() < 4.0 else 0)
    assert garage.state("a").users == 1
    request.cancel()
    await asyncio.wait([request])
    assert garage.state("a").users == 0


@pytest.mark.parametrize("turns", range(9))
@at_virtual_time
async def test_who_leaves_at_the_very_moment_of_being_served_disturbs_nobody(turns):
    """So many turns of the event loop after the load came to its end."""
    garage = Garage()
    garage.seconds = 0.0
    leaving, staying = (asyncio.create_task(garage.use("a", 5.0)) for _ in range(2))
    for _ in range(turns + 4):
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.sleep(1.0)
    assert leaving.cancelled()
    assert garage.state("a").users == 1
    assert await staying == 0.0


@at_virtual_time
async def test_the_other_model_waits_for_the_last_answer():
    garage = Garage()
    a = asyncio.create_task(garage.use("a", 300.0))
    await asyncio.sleep(5.0)
    b = asyncio.create_task(garage.use("b"))
    assert await a == 4.0
    assert await b == pytest.approx(300.0 - 1.0 + 0.5 + 4.0)
    assert garage.loads == {"a": 1, "b": 1}


@at_virtual_time
async def test_alternating_clients_cause_few_swaps():
    garage = Garage()

    async def client(name, seconds=0.3):
        count = 0
        while now() < 1000.0:
            await garage.use(name, seconds)
            count += 1
        return count

    counts = await asyncio.gather(*(client(name) for name in "aabb"))
    assert sum(garage.loads.values()) <= 1000 / (10.0 + 4.0) + 2
    assert min(counts) > 800
    await garage.supervisor.close()


@at_virtual_time
async def test_a_full_queue_and_a_model_too_large_are_refused():
    garage = Garage(sizes={"a": 6, "b": 6, "huge": 11}, max_waiting=2)
    with pytest.raises(InsufficientMemoryError):
        await garage.use("huge")
    with pytest.raises(ModelNotFoundError):
        await garage.use("nothing like it")
    a = asyncio.create_task(garage.use("a", 100.0))
    waiting = [asyncio.create_task(garage.use("b")) for _ in range(2)]
    await asyncio.sleep(5.0)
    with pytest.raises(AllModelsBusyError) as refused:
        await garage.use("b")
    assert refused.value.retry_after == 10
    await asyncio.gather(a, *waiting)


@at_virtual_time
async def test_an_error_of_a_load_is_told_to_all_who_wait_and_tried_again_later():
    garage = Garage()
    garage.errors = [InvalidCheckpointError("The header is cut.", hint="Copy it again.")]
    results = await asyncio.gather(*(garage.use("a") for _ in range(3)), return_exceptions=True)
    assert [(type(one), str(one)) for one in results] == [
        (InvalidCheckpointError, "The header is cut. Copy it again.")
    ] * 3
    assert len({id(one) for one in results}) == 3, "each its own, with its own traceback"
    assert (garage.state("a").state, garage.state("a").failure) == ("failed", "The header is cut. Copy it again.")
    assert await garage.use("a") == pytest.approx(1.0 + 4.0)


@at_virtual_time
async def test_an_unexpected_error_of_a_load_is_one_of_the_catalogue():
    garage = Garage()
    garage.errors = [RuntimeError("tensor 7")]
    with pytest.raises(EngineUnavailableError, match="Model 'a' could not be loaded: tensor 7"):
        await garage.use("a")
    garage.errors = [asyncio.CancelledError()]
    with pytest.raises(EngineUnavailableError, match="broken off"):
        await garage.use("a")
    assert garage.state("a").state == "failed"


@at_virtual_time
async def test_the_circuit_opens_and_closes_by_itself():
    garage = Garage()
    garage.errors = [OSError(f"trouble {number}") for number in range(3)]
    for _ in range(3):
        with pytest.raises(EngineUnavailableError):
            await garage.use("a")
    failed = now()
    with pytest.raises(CircuitOpenError, match="trouble 2") as refused:
        await garage.use("a")
    assert refused.value.retry_after == 4
    assert now() == failed, "at once"
    assert garage.state("a").retry_at == pytest.approx(time.time() + 4.0, abs=0.5)
    assert await garage.use("b") == 4.0, "another model is not affected"
    assert await garage.use("a") == pytest.approx(0.5 + 4.0, abs=0.6), "it works again, without a restart"


@at_virtual_time
async def test_a_load_that_took_too_long_says_when_the_next_one_may_begin():
    garage = Garage()
    garage.errors = [ModelLoadTimeoutError("late") for _ in range(2)]
    told = []
    for _ in range(2):
        with pytest.raises(ModelLoadTimeoutError) as refused:
            await garage.use("a")
        told.append(refused.value.retry_after)
    assert told == [1, 2]


@at_virtual_time
async def test_the_circuit_counts_failures_that_answers_came_between():
    """One that dies again and again after a few answers is told of as it is: it has answered, and was never up long."""
    garage = Garage()
    for _ in range(3):
        async with garage.supervisor.hold("a") as a:  # as one that answers
            a.die("It ate too much.")
            await asyncio.sleep(0.1)
    with pytest.raises(CircuitOpenError) as refused:
        await garage.use("a")
    assert "failed 3 times and was never up for 60 s in between, the last time with: It ate" in refused.value.message


@at_virtual_time
async def test_a_death_hurts_its_own_users_only():
    garage = Garage(sizes={"a": 5, "b": 5})
    async with garage.supervisor.hold("a") as a, garage.supervisor.hold("b") as b:
        a.die("It was killed by signal 9.")
        await asyncio.sleep(1.0)
        assert (garage.state("a").state, garage.state("a").users) == ("failed", 0)
        assert garage.state("a").failure == "It was killed by signal 9."
        assert b.alive
        await garage.use("a")
        assert garage.loads == {"a": 2, "b": 1}


@at_virtual_time
async def test_a_death_is_noticed_at_once_and_healed_by_the_next_request():
    garage = Garage()
    await garage.use("a")
    garage.made[0].die("out of memory")
    wait = await garage.use("a")
    assert wait == pytest.approx(1.0 + 4.0)
    assert garage.made[0].closes == 1
    await asyncio.sleep(1.0)
    garage.made[1].die("out of memory")
    await asyncio.sleep(1.0)
    assert (garage.state("a").state, garage.resident) == ("failed", [])


@at_virtual_time
async def test_an_error_while_closing_costs_no_room():
    garage = Garage()
    garage.fails_to_close = True
    await garage.use("a")
    assert await garage.use("b") == pytest.approx(0.5 + 0.5 + 4.0)


@at_virtual_time
async def test_keep_alive_of_a_request_holds_from_its_end():
    garage = Garage()
    async with garage.supervisor.hold("a"):
        garage.supervisor.keep("a", 0)
        await asyncio.sleep(1.0)
        assert garage.state("a").state == "ready"
    assert garage.state("a").state == "stopping"
    await asyncio.sleep(1.0)
    async with garage.supervisor.hold("a"):
        garage.supervisor.keep("a", None)
    assert garage.state("a").expires_at is None
    await asyncio.sleep(1e7)
    assert garage.resident == ["a"]


@at_virtual_time
async def test_stop_ends_a_model_whoever_uses_it_and_waits_until_it_is_gone():
    garage = Garage()
    async with garage.supervisor.hold("a") as resident:
        await garage.supervisor.stop("a")
        assert not resident.alive
        assert garage.resident == []
        assert await garage.use("a") == 4.0, "the next request loads it again, with no back-off"
        assert garage.state("a").users == 0, "the old user has no share in the new life"
    await garage.supervisor.stop("b")


@at_virtual_time
async def test_stop_breaks_a_load_off():
    garage = Garage()
    request = asyncio.create_task(garage.use("a"))
    await asyncio.sleep(1.0)
    await garage.supervisor.stop("a")
    assert (garage.resident, garage.broken_off) == ([], 1)
    with pytest.raises(EngineUnavailableError, match="'a' was stopped"):
        await request


@at_virtual_time
async def test_close_ends_everything_at_once():
    garage = Garage(sizes={"a": 3, "b": 3, "c": 3, "d": 9})
    await asyncio.gather(garage.use("a"), garage.use("b"))
    loading = asyncio.create_task(garage.use("c"))
    held = asyncio.create_task(garage.use("a", 1e6))
    waiting = asyncio.create_task(garage.use("d"))
    await asyncio.sleep(0.1)
    start = now()
    garage.closing = 5.0
    await garage.supervisor.close()
    assert now() - start == pytest.approx(5.0), "side by side"
    assert garage.resident == []
    for request in (loading, waiting):
        with pytest.raises(EngineUnavailableError):
            await request
    with pytest.raises(EngineUnavailableError, match="stopping"):
        await garage.use("a")
    held.cancel()
    await asyncio.wait([held])
    assert len(asyncio.all_tasks()) == 1
    assert garage.supervisor._timer is None


@pytest.mark.parametrize("seed", range(20))
@at_virtual_time
async def test_a_crowd_of_clients_that_come_leave_and_meet_deaths(seed):
    """Every request is served, or told why not; at the end nothing is left."""
    chance = random.Random(seed)
    garage = Garage(sizes={"a": 4, "b": 5, "c": 6, "d": 9}, idle=3.0, max_waiting=5, max_resident=2)
    ends: Counter[str] = Counter()

    async def client():
        for _ in range(15):
            await asyncio.sleep(chance.choice([0.0, 0.1, 2.0, 30.0]))
            name = chance.choice("aabcd")
            try:
                async with asyncio.timeout(chance.choice([1.0, 40.0, 500.0])):
                    async with garage.supervisor.hold(name) as resident:
                        await asyncio.sleep(chance.choice([0.0, 0.5, 6.0]))
                        ends["served" if resident.alive else "died"] += 1
            except TimeoutError:
                ends["left"] += 1
            except (AllModelsBusyError, CircuitOpenError, InvalidCheckpointError) as error:
                ends[error.code] += 1

    async def fate():
        while True:
            await asyncio.sleep(chance.uniform(1.0, 40.0))
            living = [one for one in garage.made if one.alive and not one.closes]
            if living and chance.random() < 0.5:
                chance.choice(living).die("bad luck")
            elif chance.random() < 0.3:
                garage.errors.append(InvalidCheckpointError("a bad read"))

    fates = asyncio.create_task(fate())
    await asyncio.gather(*(client() for _ in range(12)))
    fates.cancel()
    assert sum(ends.values()) == 12 * 15
    assert ends["served"] > 60
    assert sum(state.users + state.waiting for state in garage.supervisor.states()) == 0
    await asyncio.sleep(100.0)
    assert garage.resident == [], "idle ones have gone"
    await garage.supervisor.close()
    assert len(asyncio.all_tasks()) == 1

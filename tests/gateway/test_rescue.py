"""An engine that does not know what it advertised: one other is asked, and it is remembered which."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from tests.foreign_models import gguf_file
from tests.gateway.builds import RELEASED, build, calls, denying
from tests.gateway.conftest import MARK, nothing_left
from tests.gateway.known import FORK, LLAMA_CPP, OWN, REMOTE, WORKER, lane, missing
from unmask.errors import ModelLoadFailedError, NoLaneError, UnknownArchitectureError
from unmask.gateway.child import Child
from unmask.gateway.engine import Engine
from unmask.gateway.engine_plan import plan_for
from unmask.gateway.engine_probe import probe
from unmask.gateway.engine_registry import RegistryFile
from unmask.gateway.lanes import known_lanes
from unmask.gateway.rescue import load_or_rescue, next_lane, remember
from unmask.gateway.routing import route
from unmask.models.card import inspect_model
from unmask.refusal import Refusal

WHY = UnknownArchitectureError("The engine does not know its architecture, 'newer'.", hint="Use a newer version.")
OLD = lane("old", "llama.cpp", "gguf", autoregressive="llama newer")
NEW = lane("new", "llama.cpp", "gguf", autoregressive="llama newer")
DIFFUSION = lane("canvases", "llama.cpp", "gguf", diffusion="newer")


@pytest.fixture
def card(tmp_path):
    """A model that writes one token after another, of an architecture that came out lately."""
    found = inspect_model(str(gguf_file("newer")(tmp_path / "model")))
    assert found.paradigm == "autoregressive"
    return found


def test_the_next_lane_is_another_of_the_same_paradigm(card):
    assert next_lane(card, (OWN, OLD, NEW), OLD, WHY) == NEW
    assert next_lane(card, (OWN, NEW, OLD), OLD, WHY) == NEW
    for others in ((), (DIFFUSION,), (LLAMA_CPP, FORK, WORKER, REMOTE), (missing(NEW),)):
        found = next_lane(card, (OWN, OLD, *others), OLD, WHY)
        assert isinstance(found, Refusal)
        assert found.code == "no_lane"
        assert "old advertises the autoregressive architecture 'newer', and said" in found.message
        assert found.remedy.startswith("Update old. ")
    assert "new is not installed" in next_lane(card, (OLD, missing(NEW)), OLD, WHY).message


def test_another_death_is_no_reason_to_try_another(card):
    why = ModelLoadFailedError("It crashed.", hint="Mend it.")
    assert next_lane(card, (OLD, NEW), OLD, why) == Refusal("model_load_failed", "It crashed.", "Mend it.")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The registry that ``known_lanes`` reads."""
    monkeypatch.setenv("UNMASK_HOME", str(tmp_path / "home"))
    return RegistryFile()


def add(file: RegistryFile, name: str, program: Path) -> None:
    kind, probed = probe("llama.cpp", program)
    with file.changing() as changes:
        changes.registry = changes.registry.with_engine(Engine(name, kind, str(program), "a path", probed))


class Loader:
    """Starts models as children, as whoever loads them does."""

    def __init__(self, file: RegistryFile, model: str, directory, mark: str) -> None:
        self.file, self.model, self.directory, self.mark = file, Path(model), directory, mark

    async def __call__(self, lane):
        plan = plan_for(lane, self.file.read(), inspect_model(str(self.model)), "m")
        return await Child.start(replace(plan, environment={**plan.environment, MARK: self.mark}), self.directory)


@pytest.fixture
def builds(tmp_path, file):
    """Two of llama.cpp that list the architecture; the first one says that it does not know it."""
    old = build(tmp_path / "old" / "llama-server", *RELEASED, "newer", faults=denying("newer"))
    new = build(tmp_path / "new" / "llama-server", *RELEASED, "newer")
    add(file, "old", old)
    add(file, "new", new)
    return old, new


async def test_two_builds_of_llama_cpp(builds, file, card, tmp_path, directory, mark):
    old, new = builds
    model = str(tmp_path / "model")
    lanes = known_lanes()
    first = route(card, lanes).lane
    assert first.name == "old"
    served, child = await load_or_rescue(card, lanes, first, Loader(file, model, directory, mark), file)
    await child.close()
    await soon(lambda: file.read().pins)
    assert served.name == "new"
    assert (calls(old), calls(new)) == (1, 1)
    # From now on the first is not asked for such models, and still for others.
    lanes = known_lanes()
    assert route(card, lanes).lane.name == "new"
    decoder = inspect_model(str(gguf_file("llama")(tmp_path / "decoder")))
    assert route(decoder, [lane for lane in lanes if lane.name != "llama.cpp"]).lane.name == "old"
    # Another build of it is asked again.
    build(old, *RELEASED, "newer", "and-more")
    assert "has changed" in next(lane for lane in known_lanes() if lane.name == "old").missing
    add(file, "old", old)
    assert route(card, known_lanes()).lane.name == "old"
    assert nothing_left(mark)


async def test_what_cannot_be_remembered_is_served_all_the_same(builds, file, card, tmp_path, directory, mark):
    """Nobody else could close the child."""
    lanes = known_lanes()
    loader = Loader(file, str(tmp_path / "model"), directory, mark)

    async def load(lane):
        child = await loader(lane)
        file.path.chmod(0o666)
        return child

    with structlog.testing.capture_logs() as log:
        served, child = await load_or_rescue(card, lanes, route(card, lanes).lane, load, file)
        await soon(lambda: log)
    await child.close()
    assert served.name == "new"
    assert [line["event"] for line in log] == ["rescue not remembered"]
    assert nothing_left(mark)


async def test_who_holds_the_file_holds_nobody_up(builds, file, card, tmp_path, directory, mark):
    lanes, loop = known_lanes(), asyncio.get_running_loop()
    held, letting_go = threading.Event(), threading.Event()

    def hold():
        with file.changing():
            held.set()
            letting_go.wait(20)

    holding = loop.run_in_executor(None, hold)
    await soon(held.is_set)
    loader = Loader(file, str(tmp_path / "model"), directory, mark)
    served, child = await asyncio.wait_for(load_or_rescue(card, lanes, route(card, lanes).lane, loader, file), 15)
    assert served.name == "new"
    assert file.read().pins == []
    letting_go.set()
    await holding
    await soon(lambda: file.read().pins)
    await child.close()


async def soon(so: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not so():
            await asyncio.sleep(0.01)


async def test_a_second_that_does_not_know_it_ends_the_matter(builds, file, card, tmp_path, directory, mark):
    old, new = builds
    build(new, *RELEASED, "newer", faults=denying("newer"))
    add(file, "new", new)
    third = build(tmp_path / "third" / "llama-server", *RELEASED, "newer")
    add(file, "third", third)
    lanes = known_lanes()
    with pytest.raises(NoLaneError, match="Neither old nor new knows the architecture 'newer'"):
        await load_or_rescue(
            card, lanes, route(card, lanes).lane, Loader(file, str(tmp_path / "model"), directory, mark), file
        )
    assert [calls(program) for program in (old, new, third)] == [1, 1, 0]
    # The next load begins with the second, so that the third has its turn.
    lanes = known_lanes()
    first, loader = route(card, lanes).lane, Loader(file, str(tmp_path / "model"), directory, mark)
    served, child = await load_or_rescue(card, lanes, first, loader, file)
    await child.close()
    assert (first.name, served.name) == ("new", "third")
    assert [calls(program) for program in (old, new, third)] == [1, 2, 1]


async def test_without_another_there_is_an_explanation(builds, file, card, tmp_path, directory, mark):
    old, new = builds
    new.unlink()
    lanes = known_lanes()
    with pytest.raises(NoLaneError, match="said as it started that it does not know it") as error:
        await load_or_rescue(
            card, lanes, route(card, lanes).lane, Loader(file, str(tmp_path / "model"), directory, mark), file
        )
    assert f"its program {new} is gone" in error.value.message
    assert calls(old) == 1


async def test_one_that_crashes_is_not_replaced(file, card, tmp_path, directory, mark):
    crashing = build(tmp_path / "a" / "llama-server", *RELEASED, "newer", faults="--signal 11")
    other = build(tmp_path / "b" / "llama-server", *RELEASED, "newer")
    add(file, "a", crashing)
    add(file, "b", other)
    lanes = known_lanes()
    with pytest.raises(ModelLoadFailedError, match="crashed"):
        await load_or_rescue(
            card, lanes, route(card, lanes).lane, Loader(file, str(tmp_path / "model"), directory, mark), file
        )
    assert calls(other) == 0


def test_what_nothing_tells_from_another_build_is_not_remembered(file, card):
    remember(file, card, OLD, NEW)
    assert file.read().pins == []
    assert not os.path.exists(file.path)

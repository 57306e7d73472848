"""Children that leave nothing behind, which is checked."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from unmask.gateway.child import Child
from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.run_directory import RunDirectory

MARK = "CHILD_OF_TEST"


def marked(mark: str) -> list[psutil.Process]:
    """The processes, with all that they started, whose environment has ``mark``."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def nothing_left(mark: str, seconds: float = 2.0) -> bool:
    """Whether soon no process has ``mark``."""
    latest = time.monotonic() + seconds
    while found := marked(mark):
        if time.monotonic() > latest:
            print([process.cmdline() for process in found])
            return False
        time.sleep(0.02)
    return True


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark for processes of one test, of which nothing may be left after it."""
    mark = uuid.uuid4().hex
    yield mark
    left = marked(mark)
    for process in left:
        process.kill()
    assert left == []


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """An empty one, of which only logs may be left."""
    return RunDirectory(tmp_path / "run")


Plan = Callable[..., ChildPlan]


@pytest.fixture
def fake(mark: str) -> Plan:
    """Plans a fake engine with the faults that are named; ``before`` it starts, more are given for its port."""

    def plan(*faults: str, before: Callable[[int], tuple[str, ...]] = lambda port: (), **options: object) -> ChildPlan:
        def command(port: int) -> list[str]:
            return [sys.executable, "-m", "tests.gateway.fake_engine", str(port), *faults, *before(port)]

        environment = {MARK: mark, "PYTHONPATH": str(ROOT)}
        probe = Probe(body={"prompt": "Hello", "max_tokens": 1})
        return ChildPlan(name="m", command=command, probe=probe, environment=environment, **options)

    return plan


@asynccontextmanager
async def running(plan: ChildPlan, directory: RunDirectory) -> AsyncIterator[Child]:
    """A child that is ready, closed afterwards."""
    child = await Child.start(plan, directory)
    try:
        yield child
    finally:
        await child.close()
    assert list(directory.path.glob("*.json")) == []

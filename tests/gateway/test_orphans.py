"""A gateway that is killed leaves no process behind, and the next one cleans up after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from tests.conftest import ROOT
from tests.gateway.conftest import MARK, marked, nothing_left, running
from unmask.errors import InvalidValueError
from unmask.gateway.run_directory import Identity, Record, RunDirectory

GATEWAY = """
import asyncio, signal, sys
from pathlib import Path
from unmask.gateway.child import Child
from unmask.gateway.plan import ChildPlan, Probe
from unmask.gateway.run_directory import RunDirectory

async def main(variable, mark, directory, *faults):
    command = lambda port: [sys.executable, "-m", "tests.gateway.fake_engine", str(port), *faults]
    plan = ChildPlan(name="m", command=command, probe=Probe(body={}), environment={variable: mark})
    child = await Child.start(plan, RunDirectory(Path(directory)))
    print(child.pid, flush=True)
    await child.wait()

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are started without it
asyncio.run(main(*sys.argv[1:]))
"""


@contextmanager
def gateway(mark: str, directory: Path, *faults: str) -> Iterator[subprocess.Popen[str]]:
    """A process that starts a child, and writes its id once it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", GATEWAY, MARK, mark, str(directory), *faults],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_gateway_that_is_killed_takes_its_children_along(number, tmp_path, mark):
    with gateway(mark, tmp_path / "run", "--stubborn", "--family", "--runaway") as process:
        assert int(process.stdout.readline()) in [one.pid for one in marked(mark)]
        assert len(marked(mark)) == 4
        process.send_signal(number)
        process.wait(30)
        assert nothing_left(mark)


def test_a_gateway_that_is_killed_while_a_model_loads(tmp_path, mark):
    with gateway(mark, tmp_path / "run", "--deaf") as process:
        while len(marked(mark)) < 2:
            time.sleep(0.02)
        process.kill()
        process.wait(30)
        assert nothing_left(mark)


@contextmanager
def stray(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that nobody keeps."""
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True, env=os.environ | {MARK: mark})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def gone() -> Identity:
    """A process that has ended."""
    process = subprocess.Popen(["true"])
    identity = Identity(process.pid, "some boot 1")
    process.wait()
    return identity


def written(directory: RunDirectory, record: Record) -> Path:
    path = directory.path / "1.json"
    path.write_bytes(msgspec.json.encode(record))
    return path


def test_what_a_killed_gateway_left_is_killed(directory, mark):
    with stray(mark) as process:
        path = written(directory, Record("m", gateway=gone(), keeper=gone(), child=Identity.of(process.pid)))
        assert [record.name for record in directory.sweep()] == ["m"]
        assert process.wait(30) == -signal.SIGKILL
    assert not path.exists()
    assert directory.sweep() == []


def test_an_id_that_was_given_out_again_is_left_alone(directory, mark):
    with stray(mark) as process:
        ours = Identity.of(process.pid)
        boot, ticks = ours.birth.split()
        for birth in (f"{boot} {int(ticks) - 1}", f"00000000-0000-0000-0000-000000000000 {ticks}", ""):
            path = written(directory, Record("m", gateway=gone(), keeper=gone(), child=Identity(process.pid, birth)))
            assert directory.sweep() == []
            assert not path.exists()
        assert process.poll() is None


async def test_the_children_of_another_living_gateway_stay(fake, directory):
    async with running(fake(), directory) as child:
        assert RunDirectory(directory.path).sweep() == []
        assert child.status is None
        assert len(list(directory.path.glob("*.json"))) == 1


@pytest.mark.parametrize("content", [b"", b"{", b'{"name": 1}', b"\xff" * 100])
def test_a_damaged_record_is_forgotten(content, directory):
    (directory.path / "1.json").write_bytes(content)
    assert directory.sweep() == []
    assert list(directory.path.iterdir()) == []


def test_a_dead_process_that_nobody_has_waited_for_counts_as_gone():
    process = subprocess.Popen(["sleep", "1000"])
    identity = Identity.of(process.pid)
    assert identity.alive
    process.kill()
    while identity.alive:
        time.sleep(0.01)
    assert process.wait() == -signal.SIGKILL


def test_a_folder_where_others_may_write_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(InvalidValueError, match="others may write there"):
        RunDirectory(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidValueError, match="File exists"):
        RunDirectory(tmp_path / "file")


def test_names_of_models_make_names_of_files(directory):
    names = ["smollm2", "a/b", "a_b", "../../etc/passwd", "é", "\udcff", "x" * 300, "", ".hidden"]
    paths = [directory.log_path(name) for name in names]
    assert paths[0].name == "smollm2.log"
    assert len(set(paths)) == len(names)
    for path in paths:
        assert path.resolve().parent == directory.path.resolve()
        path.touch()

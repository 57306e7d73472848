"""Programs that give logits die, hang and talk nonsense: it ends the requests that it touches, and nothing else."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import unmask
from tests.conftest import ROOT
from tests.engine.test_families import FAMILIES
from tests.engines import absorb, drain, generate, make_loop, submit
from tests.golden.checkpoints import served_copy
from tests.logits_programs import toy_program
from unmask.engine import wire
from unmask.errors import InsufficientMemoryError, InvalidValueError, ModelLoadFailedError, ModelLoadTimeoutError
from unmask.logits_workers import LogitsWorkers
from unmask.models.logits_worker.exchange import Exchange
from unmask.models.logits_worker.process import WorkerProcess
from unmask.models.logits_worker.protocol import Question
from unmask.models.logits_worker.seat import Seat
from unmask.models.logits_worker.trail import Trail
from unmask.params import GenerationParams
from unmask.resolve import resolve
from unmask.terms import Terms

REQUEST = {"max_tokens": 32, "temperature": 0.0, "steps": 6}  # two canvases of six forwards


@pytest.fixture(scope="module")
def checkpoints(golden, tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    return {name: served_copy(golden / FAMILIES[name], folder) for name in ("diffusion_gemma", "llada")}


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Says what goes wrong with each of the coming requests."""
    file = tmp_path / "script"
    monkeypatch.setenv("TOY_SCRIPT", str(file))
    monkeypatch.setenv("TOY_STARTS", str(tmp_path / "starts"))
    return file.write_text


@pytest.fixture
def toy(checkpoints, tmp_path, script):
    """Makes loops around the toy."""
    loops = []

    def make(family="diffusion_gemma", seconds=20.0, **options):
        options = {"count": 1, "step_seconds": seconds} | options
        workers = LogitsWorkers(program=toy_program(tmp_path), start_seconds=20, **options)
        loops.append(make_loop(checkpoints[family], max_context=128, logits_workers=workers))
        return loops[-1]

    yield make
    for loop in loops:
        loop.close()


def _starts(tmp_path):
    return len((tmp_path / "starts").read_text().splitlines())


@pytest.mark.parametrize("word", ["die", "leave"])
@pytest.mark.parametrize("when", [1, 3, 6, 7, 12])
def test_a_process_that_dies_once_costs_nothing(toy, script, tmp_path, word, when):
    """Whatever it remembered of the canvas is asked for again."""
    loop = toy()
    expected = generate(loop, [5, 6, 7], **REQUEST)
    assert expected.stats.forwards == 12
    script(" ".join([""] * (when - 1) + [word]))
    found = generate(loop, [5, 6, 7], **REQUEST)
    assert (found.ids, found.error) == (expected.ids, None)
    assert _starts(tmp_path) == 2


def test_a_process_that_dies_twice_ends_the_request_and_says_why(toy, script):
    loop = toy()
    expected = generate(loop, [5, 6, 7], **REQUEST)
    script("  die die")
    code, message = generate(loop, [5, 6, 7], **REQUEST).error
    assert code == "engine_crashed"
    assert "SIGABRT" in message
    assert "GGML_ASSERT(n_tokens > 0) failed" in message
    assert generate(loop, [5, 6, 7], **REQUEST).ids == expected.ids


def test_a_neighbour_is_not_touched(toy, script):
    loop = toy("llada")
    asked = {"max_tokens": 12, "temperature": 0.0}
    expected = generate(loop, [9, 8, 7, 6], **asked)
    submit(loop, "first", [9, 8, 7, 6], **asked)
    submit(loop, "second", [9, 8, 7, 6], **asked)
    script("   die die")  # the second's second step
    results = drain(loop)
    assert results["first"].ids == expected.ids
    assert results["second"].error[0] == "engine_crashed"


@pytest.mark.parametrize(
    ("word", "code", "words"),
    [
        ("err", "upstream_error", "answered: decode"),
        ("garbage", "upstream_error", "does not keep to its protocol"),
        ("flood", "upstream_error", "a line of more than"),
        ("miscount", "upstream_error", "OK 17"),
        ("short", "upstream_error", "gave 16376 bytes of logits instead of 16384"),
        ("missing", "upstream_error", "left no readable file"),
        ("nan", "not_finite", "NaN"),
    ],
)
def test_what_is_no_answer(toy, script, word, code, words):
    loop = toy()
    expected = generate(loop, [5, 6, 7], **REQUEST)
    script(f"   {word}")
    found, message = generate(loop, [5, 6, 7], **REQUEST).error
    assert found == code
    assert words in message
    assert message.isprintable()
    assert generate(loop, [5, 6, 7], **REQUEST).ids == expected.ids


def test_a_process_that_hangs_is_ended(toy, script):
    loop = toy(seconds=1.0)
    script("  hang")
    code, message = generate(loop, [5, 6, 7], **REQUEST).error
    assert code == "engine_stalled"
    assert "within 1 s" in message
    assert generate(loop, [5, 6, 7], **REQUEST).error is None


def test_cancelled_in_the_middle_of_a_canvas(toy):
    loop = toy()
    expected = generate(loop, [5, 6, 7], **REQUEST)
    submit(loop, "gone", [1, 2, 3], **REQUEST)
    for _ in range(3):
        loop.step()
    loop.send(wire.Cancel("gone"))
    assert generate(loop, [5, 6, 7], **REQUEST).ids == expected.ids


def test_a_batch_request_that_pauses_in_its_canvas_goes_on_where_it_was(toy, monkeypatch):
    """Its process waits for it: nothing is asked twice."""
    asked = []
    ask = Seat._ask
    monkeypatch.setattr(Seat, "_ask", lambda seat, question: asked.append(question) or ask(seat, question))
    loop = toy(count=2)
    alone = {n: generate(loop, [n, 6, 7], **REQUEST).ids for n in range(5)}
    params = resolve(GenerationParams(**REQUEST), loop.model, 3)
    loop.send(wire.Submit("0", [0, 6, 7], params, Terms(priority="batch")))
    results = {}
    asked.clear()
    for n in range(1, 5):
        submit(loop, str(n), [n, 6, 7], **REQUEST)
        absorb(loop.step(), results)
    drain(loop, results)
    assert {int(name): result.ids for name, result in results.items()} == alone
    assert results["0"].finished_in_step > results["0"].stats.forwards  # it did pause
    assert len(asked) == sum(result.stats.forwards for result in results.values())


def test_canvases_that_share_a_process(tmp_path, checkpoints):
    """One that lost what it had is brought to remember it."""

    def start():
        return WorkerProcess([toy_program(tmp_path), str(checkpoints["diffusion_gemma"])], {})

    exchange = Exchange(0)
    seats = [Seat(start, exchange, 256, 20.0) for _ in range(3)]
    for seat in seats:
        seat.open().await_ready(256, 20)
    trails, answers = [Trail() for _ in range(4)], []
    for step in range(4):
        for number in (0, 1):
            tokens = np.arange(20, dtype=np.int32) + step + 10 * number
            question = Question(tokens, 16, 0.8 - step / 10, conditioned=step > 0)
            found = []
            for seat, trail in ((seats[number], trails[number]), (seats[2], trails[2 + number])):
                found.append(np.array(seat.answer(question, trail)))
                trail.add(question)
            answers.append(np.array_equal(*found))
    assert all(answers)
    for seat in seats:
        seat.retire()
    exchange.close()


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ("echo 'error loading model: no tensor x' >&2; exit 1", ModelLoadFailedError, r"exit code 1\).*no tensor x"),
        ("echo READY 7; exec sleep 60", ModelLoadFailedError, "7 tokens; its file says 256"),
        ("kill -SEGV $$", ModelLoadFailedError, "SIGSEGV"),
        ("echo READY 256 2304; exec sleep 60", ModelLoadFailedError, "READY 256 2304"),
        ("yes", ModelLoadFailedError, "never that it was ready"),
        ("echo begun >&2; exec sleep 60", ModelLoadTimeoutError, r"within 1 s.*begun"),
    ],
)
def test_a_model_that_is_not_loaded(tmp_path, checkpoints, lines, kind, words):
    program = tmp_path / "p"
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)
    workers = LogitsWorkers(program=str(program), start_seconds=1.0 if kind is ModelLoadTimeoutError else 20.0)
    with pytest.raises(kind, match=words):
        make_loop(checkpoints["llada"], logits_workers=workers)


def test_a_program_that_is_gone(tmp_path, checkpoints):
    with pytest.raises(ModelLoadFailedError, match="No such file"):
        make_loop(checkpoints["llada"], logits_workers=LogitsWorkers(program=str(tmp_path / "gone")))


def test_logits_that_have_no_room():
    with pytest.raises(InsufficientMemoryError, match="MiB"):
        Exchange(2**60)


def test_nothing_is_left(toy):
    loop = toy()
    pool = loop._runner.model._pool
    pid, folder = pool._seats[0].open().pid, pool._seats[0]._exchange.folder
    generate(loop, [5], max_tokens=1)
    assert list(folder.iterdir()) == []
    loop.close()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_in_python(golden, tmp_path):
    """The processes end when nobody has the model any more."""
    path = served_copy(golden / FAMILIES["llada"], tmp_path, tokenizer=True)
    with pytest.raises(InvalidValueError, match="it must be LogitsWorkers or None"):
        unmask.LLM(str(path), logits_workers="toy")
    llm = unmask.LLM(str(path), logits_workers=unmask.LogitsWorkers(program=toy_program(tmp_path)), max_context=64)
    pid = llm._loop._runner.model._pool._seats[0].open().pid
    [answer] = llm.generate("Hi", unmask.GenerationParams(max_tokens=4, ignore_eos=True), raw=True)
    assert len(answer.token_ids) == 4
    assert llm.model.precision == "what toy-logits computes in"
    del llm
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


ENGINE = """
import sys
from tests.engines import make_loop, submit
from unmask.logits_workers import LogitsWorkers
loop = make_loop(sys.argv[1], max_context=128, logits_workers=LogitsWorkers(program=sys.argv[2]))
pool = loop._runner.model._pool
print(pool._seats[0].open().pid, pool._seats[0]._exchange.folder, flush=True)
submit(loop, "only", [5, 6, 7], max_tokens=16)
loop.step()
"""


def test_an_engine_that_is_killed_takes_its_processes_along(tmp_path, checkpoints, script):
    """Also one that is busy, and reads nothing. What it left on the disk goes with the next engine."""
    script("hang")
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE, str(checkpoints["diffusion_gemma"]), toy_program(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
    with engine:
        pid, folder = engine.stdout.readline().split()
        while not list(Path(folder).iterdir()):
            time.sleep(0.01)
        engine.send_signal(signal.SIGKILL)
        engine.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert Path(folder).exists()
    Exchange(0).close()
    assert not Path(folder).exists()

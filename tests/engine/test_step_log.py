"""The step log: what each step held and took, all of it and nothing else, and an engine that lives without it too."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import time

import msgspec
import pytest

from tests.engines import drain, make_loop, submit
from tests.infos import model_info
from tests.serving.processes import serve
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.engine.options import EngineOptions
from unmask.engine.process import ProcessEngine
from unmask.engine.step_log import StepLog
from unmask.engine.step_meter import StepMeter
from unmask.engine.step_records import Origin, StepRecord
from unmask.errors import InvalidValueError

PROMPT = [1, *range(30, 60), 3]
ORIGIN = Origin.here(model_info(), 1, "cpu")


def read(path) -> tuple[Origin, list[StepRecord]]:
    origin, *steps = path.read_bytes().splitlines()
    return msgspec.json.decode(origin, type=Origin), [msgspec.json.decode(step, type=StepRecord) for step in steps]


@pytest.mark.parametrize(
    "options",
    [{}, {"cfg_scale": 1.0}, {"lookahead": 3}, {"rule": "wino"}, {"cache": "none"}],
    ids=lambda options: next(iter(options), "plain"),
)
def test_it_tells_of_all_that_was_computed(tmp_path, options):
    path = tmp_path / "steps.jsonl"
    loop = make_loop(EMBEDDED_MODEL, step_log=str(path), max_rows=200)
    for number in range(5):
        submit(loop, str(number), PROMPT[: 5 + 6 * number], max_tokens=20 + 9 * number, ignore_eos=True, **options)
    drain(loop)
    stats = loop.step().stats
    origin, steps = read(path)  # complete as soon as nothing is left to do
    assert (origin.model, origin.threads, origin.device) == (loop.model, 1, "cpu")
    assert len(steps) == stats.steps
    assert sum(step.rows for step in steps) == stats.rows
    assert max(step.spans for step in steps) >= 4
    assert all(0 < step.seconds < 60 for step in steps)
    for step, after in itertools.pairwise(steps):
        assert after.idle >= 0
        assert step.time + step.seconds + after.idle <= after.time + 5e-6


def test_what_is_open_and_seen_in_each_step(tmp_path):
    path = tmp_path / "steps.jsonl"
    loop = make_loop(EMBEDDED_MODEL, step_log=str(path))
    submit(loop, "only", PROMPT, max_tokens=32, block_length=16, rule="low_confidence", ignore_eos=True)
    drain(loop)
    _, steps = read(path)
    assert [step.candidates for step in steps] == [*range(16, 0, -1), *range(16, 0, -1)]
    assert (steps[0].rows, steps[0].keys) == (len(PROMPT) + 16, len(PROMPT) + 16)
    assert [(step.rows, step.keys) for step in steps[1:16]] == [(16, len(PROMPT) + 16)] * 15
    assert all(step.pairs == step.rows * step.keys for step in steps)


def test_each_start_goes_on_at_the_end_of_the_file(tmp_path):
    path = tmp_path / "steps.jsonl"
    for _ in range(2):
        loop = make_loop(EMBEDDED_MODEL, step_log=str(path))
        submit(loop, "only", PROMPT, max_tokens=8)
        drain(loop)
    lines = path.read_text().splitlines()
    assert [number for number, line in enumerate(lines) if "model" in json.loads(line)] == [0, len(lines) // 2]


def test_a_file_that_was_moved_away_is_begun_anew(tmp_path):
    path = tmp_path / "steps.jsonl"
    loop = make_loop(EMBEDDED_MODEL, step_log=str(path))
    for number in range(2):
        submit(loop, "only", PROMPT, max_tokens=8)
        drain(loop)
        path.rename(tmp_path / str(number))
    (origin, first), (again, second) = (read(tmp_path / str(number)) for number in range(2))
    assert origin == again
    assert [step.candidates for step in first] == [step.candidates for step in second]


def test_a_busy_engine_writes_each_second(tmp_path):
    path = tmp_path / "steps.jsonl"
    log = StepLog(str(path), ORIGIN)
    for seconds in (0.0, 1.1):
        assert len(path.read_bytes().splitlines()) == 1
        log.begin()
        log.computed([])
        time.sleep(seconds)
        log.end(idle=False)
    assert len(path.read_bytes().splitlines()) == 3


def test_time_is_counted_from_the_first_command_to_the_report_without_the_measuring():
    records: list[StepRecord] = []
    times = iter([100.0, 103.0, 105.0, 106.5, 109.0, 110.0, 110.25, 112.0, 112.5, 113.0, 114.0, 115.0, 116.0, 116.5])
    meter = StepMeter(records.append, lambda: next(times))  # made at 100
    meter.begin()  # 103
    meter.begin()
    meter.computed([])  # 105 to 106.5
    meter.end(idle=False)  # 109; the record is kept until 110
    meter.begin()  # 110.25
    meter.end(idle=False)  # 112 to 112.5: nothing was computed
    meter.begin()  # 113
    meter.computed([])  # 114 to 115
    meter.end(idle=True)
    first, second = records
    assert (first.time, first.idle, first.seconds) == (103.0, 3.0, 4.5)
    assert (second.time, second.idle, second.seconds) == (113.0, 0.5, 2.0)


@pytest.mark.parametrize("place", ["directory", "missing", "pipe", "forbidden"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_loads(tmp_path, place):
    path = tmp_path / place
    match place:
        case "directory":
            path.mkdir()
        case "missing":
            path = path / "steps.jsonl"
        case "pipe":
            os.mkfifo(path)
        case "forbidden":
            path = "/proc/version"
    with pytest.raises(InvalidValueError, match="step log") as caught:
        make_loop("/no/such/model", step_log=str(path))
    assert caught.value.param == "step_log"
    assert str(path) in caught.value.message


def test_a_full_disk_ends_the_log_and_not_the_engine(capfd):
    log = StepLog("/dev/full", ORIGIN)
    for _ in range(2):
        log.begin()
        log.computed([])
        log.end(idle=True)
    log.close()
    assert capfd.readouterr().err == "The step log '/dev/full' ends here: No space left on device.\n"


async def test_the_engine_process_writes_it_and_says_why_it_cannot(tmp_path):
    options = EngineOptions(model=EMBEDDED_MODEL, device="cpu", threads=1, step_log=str(tmp_path / "no" / "log"))
    with pytest.raises(InvalidValueError, match=r"The step log .*No such file or directory"):
        await ProcessEngine.launch(options)


def test_a_server_writes_one(tmp_path):
    """Its steps lie within the requests that they served, and are there once those are answered."""
    import aiohttp

    path = tmp_path / "steps.jsonl"

    async def ask(url: str) -> list[dict]:
        async with aiohttp.ClientSession(url) as http:

            async def one(prompt: str) -> dict:
                async with http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 24}) as response:
                    return await response.json()

            return await asyncio.gather(*map(one, ["One two three", "secretive"]))

    with serve("--step-log", str(path)) as server:
        answers = asyncio.run(ask(server.url))
        server.stop()
    _, steps = read(path)
    reports = [answer["unmask"] for answer in answers]
    assert sum(step.spans for step in steps) == sum(report["forwards"] for report in reports)
    assert sum(step.seconds for step in steps) * 1000 < 1.5 * sum(report["total_ms"] for report in reports)
    assert "secret" not in path.read_text()

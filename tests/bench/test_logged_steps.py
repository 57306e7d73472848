"""Costs come back out of a step log; what is no step log is named with its line."""

from __future__ import annotations

import json

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from tests.bench.test_costs import steps
from tests.bench.worlds import MODEL
from unmask.bench.costs import TERMS, Calibration, Costs
from unmask.bench.logged_steps import calibrate_from_steps, read_steps
from unmask.cli.app import app
from unmask.engine.step_log import StepLog
from unmask.engine.step_records import Origin, StepRecord
from unmask.errors import InvalidValueError

ORIGIN = Origin.here(MODEL, 3, "cpu")
KNOWN = Costs(step=2e-3, span=1e-4, row=3e-5, key=1e-7, pair=4e-9, candidate=2e-5)


@pytest.fixture
def log(tmp_path):
    """Of 300 steps that cost exactly ``KNOWN``."""
    features = steps(300, np.random.default_rng(3))
    path = tmp_path / "steps.jsonl"
    told = KNOWN.step + KNOWN.of(features)
    records = [StepRecord(1.0, 0.0, *line) for line in zip(told.tolist(), *features.T.tolist(), strict=True)]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in [ORIGIN, *records]))
    return path


def test_the_costs_of_logged_steps_are_found(log):
    found = calibrate_from_steps(str(log), None)
    assert [getattr(found.costs, term) for term in TERMS] == pytest.approx([getattr(KNOWN, term) for term in TERMS])
    assert (found.model, found.threads, found.device, found.host) == (MODEL, 3, "cpu", ORIGIN.host)
    assert (found.fit.steps, found.request_seconds) == (300, 0)


def test_an_engine_that_was_started_again_goes_on(log):
    before = read_steps(str(log))
    StepLog(str(log), ORIGIN).close()
    log.write_bytes(log.read_bytes() * 2)
    after = read_steps(str(log))
    assert before[0] == after[0]
    assert (after[1] == np.concatenate([before[1]] * 2)).all()
    assert (after[2] == np.concatenate([before[2]] * 2)).all()


def test_a_line_that_is_still_being_written_is_left_out(log):
    log.write_bytes(log.read_bytes()[:-30])
    assert len(read_steps(str(log))[2]) == 299


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.replace('"spans"', '"spans', 1), "line 2"),
        (lambda text: text.replace('"seconds":0', '"seconds":-0', 1), "seconds"),
        (lambda text: text.replace('"rows":', '"rows":999999999999999', 1), "rows"),
        (lambda text: text.replace('"keys"', '"prompt":"x","keys"', 1), "prompt"),
        (lambda text: text.partition("\n")[2], "line 1"),
        (lambda text: text.partition("\n")[0] + "\n", "holds no steps"),
        (lambda text: "", "holds no steps"),
        (lambda text: "time,prompt_tokens\n1,2\n", "line 1"),
        (lambda text: text + text.replace('"threads":3', '"threads":4', 1), "line 302"),
        (lambda text: "\x00\n", "line 1"),
    ],
)
def test_what_is_no_step_log_is_named(log, damage, words):
    log.write_text(damage(log.read_text()))
    with pytest.raises(InvalidValueError, match=words) as caught:
        read_steps(str(log))
    assert str(log) in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidValueError, match=r"nothing\.jsonl' cannot be read: No such file"):
        read_steps(str(tmp_path / "nothing.jsonl"))
    with pytest.raises(InvalidValueError, match="cannot be read: Is a directory"):
        read_steps(str(tmp_path))


def simulate(*arguments: object):
    return CliRunner().invoke(app, ["simulate", *map(str, arguments)])


def test_from_a_log_to_a_simulation(log, tmp_path):
    costs = tmp_path / "costs.json"
    done = simulate("--calibrate", costs, "--from-steps", log)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Fitted to 300 steps (cpu, threads: 3)" in done.stdout
    assert "not measured" in done.stdout
    load = ("--rate", 2, "--requests", 50, "--prompt-tokens", 9, "--output-tokens", 30, "--tokens-per-forward", 1)
    done = simulate("--costs", costs, *load, "--replicas", 2, "--policy", "step", "--json")
    (result,) = json.loads(done.stdout)["results"]
    assert result["finished"] == 50
    assert result["total"]["p50"] > 30 * KNOWN.step


@pytest.mark.slow
def test_what_a_request_takes_outside_is_measured_of_a_model(log, tmp_path):
    costs = str(tmp_path / "costs.json")
    done = simulate("--calibrate", costs, "--from-steps", log, "unmask-tiny", "--threads", 1, "--device", "cpu")
    assert done.exit_code == 0, done.stderr
    assert 0 < Calibration.load(costs).request_seconds < 1
    assert "not measured" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from-steps", "LOG", "--costs", "x.json", "--rate", "1"), ["--from-steps", "--calibrate"]),
        (("--from-steps", "LOG", "--calibrate", "x.json", "--seconds", "5"), ["--seconds", "no effect"]),
        (("--from-steps", "LOG", "--calibrate", "x.json", "--output-tokens", "5"), ["--output-tokens", "no effect"]),
        (("--from-steps", "LOG", "--calibrate", "x.json", "--rule", "d2f"), ["--rule", "no effect"]),
        (("--from-steps", "LOG", "--calibrate", "x.json", "--dtype", "auto"), ["--dtype", "without MODEL"]),
        (("--from-steps", "LOG", "--calibrate", "x.json", "--replicas", "2"), ["--replicas", "no effect"]),
    ],
)
def test_options_that_do_not_fit_together(log, arguments, words):
    done = simulate(*(log if argument == "LOG" else argument for argument in arguments))
    assert done.exit_code == 2
    assert [word for word in words if word not in " ".join(done.stderr.replace("│", "").split())] == []

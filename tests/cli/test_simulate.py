"""`unmask simulate` as a process: what it prints, draws and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.bench.worlds import MODEL
from tests.cli.test_run import unmask
from tests.serving.processes import environment
from unmask.bench.costs import Calibration, Costs, Fit
from unmask.checkpoints.directory import EMBEDDED_MODEL
from unmask.cli.app import app
from unmask.errors import NotInstalledError, UnmaskError

SIZES = ("--prompt-tokens", "uniform:5:60", "--output-tokens", "lognormal:40:0.8", "--tokens-per-forward", "2")
LOAD = ("--rate", "20", "--requests", "300", *SIZES)


@pytest.fixture
def costs(tmp_path) -> str:
    path = str(tmp_path / "costs.json")
    Calibration(
        model=MODEL,
        costs=Costs(step=2e-3, span=1e-4, row=2e-5),
        fit=Fit(100, 0.01, 0.02),
        request_seconds=0.004,
        threads=1,
        device="cpu",
        host="here",
        version="0",
    ).save(path)
    return path


def results(*arguments: str) -> list[dict]:
    done = CliRunner().invoke(app, ["simulate", "--json", *arguments])
    assert (done.exception, done.stderr, len(done.stdout.splitlines())) == (None, "", 1)
    return json.loads(done.stdout)["results"]


def test_a_table_of_all_policies(costs):
    done = unmask("simulate", "--costs", costs, *LOAD)
    assert (done.returncode, done.stderr) == (0, "")
    assert "20 requests a second" in done.stdout
    names = [line.strip().split("  ")[0] for line in done.stdout.splitlines() if "%" in line]
    assert names[:3] == ["step", "deadline", "drain"]
    assert [name.split(" (")[0] for name in names[3:]] == ["fill T_min/2", "fill T_min", "fill 2 T_min"]


def test_json(costs):
    step, drain = results("--costs", costs, *LOAD, "--policy", "step", "--policy", "drain", "--total-within", "0.2")
    assert (step["policy"], drain["policy"]) == ("step", "drain")
    assert step["finished"] == 300
    assert step["refused"] == 0
    assert 0.004 < step["first_block"]["p50"] <= step["total"]["p50"] <= step["total"]["p95"] <= step["total"]["p99"]
    assert step["met"] > drain["met"]
    assert 0 < step["utilisation"] <= 1 <= step["mean_batch"]


def test_equal_seeds_give_equal_results_and_others_do_not(costs):
    bursts = ("--bursts", "1:4", "--replicas", "3", "--routing", "two_choices", "--deadline", "uniform:0.05:0.3")
    first, again, other = (results("--costs", costs, *LOAD, *bursts, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert all(one["total"] != two["total"] for one, two in zip(first, other, strict=True))


def test_a_trace_and_what_is_drawn_from_it(costs, tmp_path):
    trace = tmp_path / "trace.csv"
    lines = [f"{number / 10},{5 + number},{8 + number},{2 + number // 4}" for number in range(20)]
    trace.write_text("\n".join(["time,prompt_tokens,output_tokens,forwards", *lines]))
    (replayed,) = results("--costs", costs, "--trace", str(trace), "--policy", "step")
    assert (replayed["finished"], replayed["rate"]) == (20, pytest.approx(10))
    drawn = results("--costs", costs, "--like", str(trace), "--rate", "1", "--rate", "100", "--policy", "step")
    assert [one["rate"] for one in drawn] == [1, 100]
    assert drawn[0]["total"]["p95"] < drawn[1]["total"]["p95"]


@pytest.mark.slow
def test_pictures(costs, tmp_path):
    folder = tmp_path / "new" / "plots"
    few = (*LOAD, "--policy", "step", "--policy", "drain")
    done = CliRunner().invoke(app, ["simulate", "--costs", costs, *few, "--rate", "40", "--plots", str(folder)])
    assert done.exit_code == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["load.svg", "totals-20.svg", "totals-40.svg"]
    assert all("<svg" in path.read_text() for path in folder.iterdir())
    png = ("--plots", str(folder), "--plot-format", "png", "--json")
    done = CliRunner().invoke(app, ["simulate", "--costs", costs, *few, *png])
    (path,) = json.loads(done.stdout)["plots"]
    assert Path(path).read_bytes()[:4] == b"\x89PNG"


def test_pictures_without_the_package_that_draws_them(costs, tmp_path, monkeypatch):
    monkeypatch.setattr("unmask.bench.plots.find_spec", lambda name: None)
    arguments = ["simulate", "--costs", costs, *LOAD, "--plots", str(tmp_path / "plots")]
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, NotInstalledError)
    assert (error.code, error.param) == ("not_installed", "plots")
    assert "pip install matplotlib" in error.hint
    assert not (tmp_path / "plots").exists()


def test_calibrated_on_the_live_engine(tmp_path):
    """Whatever the machine: costs are found, tell the steps roughly, and serve for a simulation."""
    path = str(tmp_path / "costs.json")
    few = ("--max-running", "4", "--threads", "1", "--device", "cpu", "--seconds", "1.5")
    done = unmask("simulate", "--calibrate", path, EMBEDDED_MODEL, *few, "--output-tokens", "32", "--json")
    assert done.returncode == 0, done.stderr
    found = Calibration.load(path)
    told = json.loads(done.stdout)
    assert told["fit"]["steps"] == found.fit.steps >= 24
    assert found.model.name == EMBEDDED_MODEL
    assert (found.threads, found.device) == (1, "cpu")
    assert 0 < found.request_seconds < 1
    assert 1e-4 < found.costs.step + found.costs.span + 32 * found.costs.row < 1
    assert found.fit.median_error < 0.7
    (step,) = results("--costs", path, *LOAD, "--policy", "step", "--max-running", "4")
    assert step["finished"] + step["refused"] == 300


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["--calibrate", "--costs"]),
        (("--calibrate", "x.json", "--replicas", "2"), ["--replicas", "no effect"]),
        (("--costs", "COSTS", "unmask-tiny", *LOAD), ["MODEL", "no effect"]),
        (("--costs", "COSTS"), ["--trace", "--rate"]),
        (("--costs", "COSTS", "--trace", "t.csv", "--requests", "5"), ["--requests", "no effect"]),
        (("--costs", "COSTS", "--rate", "1", "--like", "t.csv", "--output-tokens", "5"), ["--output-tokens"]),
        (("--costs", "COSTS", *LOAD, "--policy", "step", "--timeout", "1"), ["--timeout", "no effect"]),
        (("--costs", "COSTS", *LOAD, "--plot-format", "png"), ["--plot-format", "no effect"]),
        (("--costs", "COSTS", *LOAD, "--bursts", "3"), ["--bursts", "ON:OFF"]),
    ],
)
def test_options_that_do_not_fit_together(costs, arguments, words):
    done = CliRunner().invoke(
        app, ["simulate", *(costs if argument == "COSTS" else argument for argument in arguments)]
    )
    assert done.exit_code == 2
    assert [word for word in words if word not in " ".join(done.stderr.replace("│", "").split())] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--costs", "no/thing.json", *LOAD), ["no/thing.json", "No such file"]),
        (("--costs", "COSTS", "--trace", "no/thing.csv"), ["no/thing.csv", "No such file"]),
        (("--calibrate", "no/thing.json"), ["no/thing.json", "cannot be written"]),
        (("--costs", "TRACE", *LOAD), ["no measured costs", "--calibrate"]),
        (("--costs", "COSTS", "--trace", "TRACE"), ["line 2", "'output_tokens'"]),
        (("--costs", "COSTS", "--rate", "1"), ["--prompt-tokens"]),
        (("--costs", "COSTS", *LOAD, "--rate", "0"), ["'rate' is 0"]),
        (("--costs", "COSTS", *LOAD, "--policy", "lifo"), ["'policy' is 'lifo'", "drain"]),
        (("--costs", "COSTS", *LOAD, "--routing", "best"), ["'routing' is 'best'", "least_loaded"]),
        (("--costs", "COSTS", *LOAD, "--kv-tokens", "511"), ["two contexts", "512"]),
        (("--costs", "COSTS", *LOAD, "--rule", "d2f"), ["Rule 'd2f'"]),
        (("--costs", "COSTS", *LOAD, "--plots", "x", "--plot-format", "gif"), ["plot_format", "svg, png"]),
        (("--costs", "COSTS", "--rate", "1", "--prompt-tokens", "many"), ["prompt_tokens", "lognormal"]),
    ],
)
def test_errors(costs, tmp_path, arguments, words):
    trace = tmp_path / "trace.csv"
    trace.write_text("time,prompt_tokens,output_tokens\n0,4,none\n")
    places = {"COSTS": costs, "TRACE": str(trace)}
    done = CliRunner().invoke(app, ["simulate", *(places.get(argument, argument) for argument in arguments)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert isinstance(done.exception, UnmaskError)
    assert [word for word in words if word not in str(done.exception)] == []


def test_an_error_is_a_message_and_not_a_traceback(costs):
    done = unmask("simulate", "--costs", costs, "--rate", "1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: 'prompt_tokens' is not said. [invalid_value]\nhint: Give --prompt-tokens")


def test_help():
    done = CliRunner().invoke(app, ["simulate", "--help"])
    assert done.exit_code == 0
    assert "--calibrate" in done.stdout


def test_no_torch_is_needed_to_simulate(costs):
    code = (
        f"import sys; sys.argv = ['unmask', 'simulate', '--costs', {costs!r}, *{LOAD!r}]\n"
        "from unmask.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert not {'torch', 'uvicorn', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=environment(), stdout=subprocess.DEVNULL)

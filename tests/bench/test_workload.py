"""Arrivals, sizes, and trace files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unmask.bench.arrivals import bursts, poisson
from unmask.bench.distributions import Distribution
from unmask.bench.routing import Router
from unmask.bench.trace import TraceRow, read_trace
from unmask.bench.workload import MOST_SHAPES, Workload, draw_shapes
from unmask.errors import InvalidValueError

ROW = {"time": 1.5, "prompt_tokens": 10, "output_tokens": 20}


def test_independent_arrivals():
    times = poisson(8.0, 50_000, np.random.default_rng(0))
    gaps = np.diff(times)
    assert (gaps >= 0).all()
    assert gaps.mean() == pytest.approx(1 / 8, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.03)


def test_bursts_keep_the_rate_and_leave_silences():
    times = bursts(8.0, 100_000, 2.0, 6.0, np.random.default_rng(0))
    gaps = np.diff(times)
    assert (gaps >= 0).all()
    assert len(times) / times[-1] == pytest.approx(8.0, rel=0.05)
    inside = gaps[gaps < 1.0]
    assert 1 / inside.mean() == pytest.approx(8 * (2 + 6) / 2, rel=0.15)
    # Of 8 seconds one silence of 6 on average.
    silences = gaps[gaps > 1.0]
    assert len(silences) / times[-1] == pytest.approx(np.exp(-1 / 6) / 8, rel=0.1)


@pytest.mark.parametrize(
    ("text", "mean", "variation"),
    [("64", 64, 0), ("uniform:10:30", 20, 0.289), ("geometric:50", 50, 0.99), ("lognormal:200:1.2", 200, 1.2)],
)
def test_distributions(text, mean, variation):
    drawn = Distribution.parse(text, "prompt_tokens").draw(200_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(mean, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(variation, abs=0.05)


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "nan", "uniform:1", "uniform:3:2", "normal:1:2", "geometric:0.5"])
def test_no_distribution(text):
    with pytest.raises(InvalidValueError) as caught:
        Distribution.parse(text, "output_tokens")
    assert caught.value.param == "output_tokens"
    assert "lognormal:MEAN:VARIATION" in caught.value.hint


def test_drawn_sizes_fit_the_context():
    laws = [Distribution.parse(text, "") for text in ("lognormal:100:2", "lognormal:100:2", "uniform:1:4")]
    shapes = draw_shapes(5000, *laws, None, 256, np.random.default_rng(0))
    assert len(shapes) == MOST_SHAPES
    assert max(shape.prompt_tokens + shape.max_tokens for shape in shapes) == 256
    assert all(shape.output_tokens == shape.max_tokens for shape in shapes)
    cut = draw_shapes(1000, *laws, 40, 256, np.random.default_rng(0))
    assert {shape.max_tokens for shape in cut} == {40}
    assert max(shape.output_tokens for shape in cut) == 40


def test_both_kinds_of_trace_file(tmp_path):
    rows = [
        ROW,
        {"time": 0, "prompt_tokens": 5, "output_tokens": 6, "max_tokens": 9, "forwards": 3, "deadline_ms": 250},
    ]
    jsonl = tmp_path / "trace.jsonl"
    jsonl.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    table = tmp_path / "trace.csv"
    table.write_text("time,prompt_tokens,output_tokens,max_tokens,forwards,deadline_ms\n1.5,10,20,,,\n0,5,6,9,3,250\n")
    expected = [TraceRow(**rows[1]), TraceRow(**rows[0])]
    assert read_trace(str(jsonl)) == read_trace(str(table)) == expected
    load = Workload.of_trace(expected, Distribution.parse("4", ""), np.random.default_rng(0))
    assert load.times.tolist() == [0.0, 1.5]
    assert [shape.forwards for shape in load.shapes] == [3, 5]
    assert load.deadlines.tolist() == [0.25, np.inf]
    with pytest.raises(InvalidValueError, match="forwards"):
        Workload.of_trace(expected, None, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens"),
        ({"output_tokens": "many"}, "output_tokens"),
        ({"time": -1}, "time"),
        ({"forwards": 1.5}, "forwards"),
        ({"priority": "high"}, "priority"),
        ({"max_tokens": 19}, "output_tokens"),
        ({"deadline_ms": 0}, "deadline_ms"),
        ({"weight": 1}, "weight"),
    ],
)
def test_errors_name_line_and_field(tmp_path, change, field):
    bad = ROW | change
    jsonl = tmp_path / "trace.jsonl"
    jsonl.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW)}\n{json.dumps(bad)}\n")
    table = tmp_path / "trace.csv"
    table.write_text(f"{','.join(bad)}\n{','.join(map(str, bad.values()))}\n")
    for path, line in ((jsonl, 3), (table, 2)):
        with pytest.raises(InvalidValueError) as caught:
            read_trace(str(path))
        assert f"{path}, line {line}: " in caught.value.message
        assert field in caught.value.message
        assert caught.value.param == field


def test_fields_that_are_missing(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text('{"time": 1, "prompt_tokens": 3}\n')
    with pytest.raises(InvalidValueError, match=r"line 1: .*output_tokens"):
        read_trace(str(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("trace.txt", b"", "no trace file"),
        ("trace.jsonl", b"\n", "no requests"),
        ("trace.csv", b"time,prompt_tokens,output_tokens\n", "no requests"),
        ("trace.jsonl", b"{\n", "line 1"),
        ("trace.jsonl", b"[1]\n", "line 1"),
        ("trace.jsonl", b"\xff\xfe\n", "no text file"),
        ("trace.csv", b"time,prompt_tokens,output_tokens\n1,2,3,4\n", "line 2"),
        ("trace.csv", b"time,prompt_tokens,output_tokens\nnan,2,3\n", "line 2.*time"),
    ],
)
def test_files_that_are_no_traces(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InvalidValueError, match=message):
        read_trace(str(path))


def test_routers():
    router = Router("round_robin", 3, 0)
    assert [router.choose() for _ in range(5)] == [0, 1, 2, 0, 1]
    shortest, least = Router("shortest_queue", 3, 0), Router("least_loaded", 3, 0)
    for router in (shortest, least):
        for replica, tokens in ((0, 10), (1, 100), (0, 10), (2, 50)):
            router.begin(replica, tokens)
    assert (shortest.choose(), least.choose()) == (1, 0)
    shortest.end(2, 50)
    assert shortest.choose() == 2
    both = Router("two_choices", 2, 0)
    both.begin(0, 1)
    chosen = [both.choose() for _ in range(400)]
    assert 0.15 < chosen.count(0) / 400 < 0.35, "only if both choices fall on it"
    random = Router("random", 4, 0)
    assert {random.choose() for _ in range(100)} == {0, 1, 2, 3}

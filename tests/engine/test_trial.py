"""Exact outputs and forward counts of a known model, computed outside this project."""

from __future__ import annotations

import json

import pytest

from tests.engines import drain, make_loop, submit


@pytest.fixture(scope="module")
def expected(trial):
    return json.loads((trial / "expected.json").read_text())


@pytest.fixture(scope="module")
def loop(trial):
    return make_loop(trial, max_running=64)


@pytest.mark.parametrize(
    ("setting", "params"),
    [("threshold_0.9", {"threshold": 0.9}), ("one_token_per_step", {"rule": "low_confidence"})],
)
def test_expected_outputs(loop, expected, setting, params):
    for number, entry in enumerate(expected):
        submit(loop, str(number), entry["prompt_ids"], block_length=16, **params)
    results = drain(loop)
    for number, entry in enumerate(expected):
        result, wanted = results[str(number)], entry[setting]
        assert result.ids == wanted["ids"], entry["prompt"]
        assert result.stats.forwards == wanted["denoise_forwards"], entry["prompt"]
        assert result.stats.blocks == wanted["blocks"]
        assert result.finish == "stop"
        assert result.ended_by_token

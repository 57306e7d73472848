"""Costs are fitted exactly, never negative, and what is written can be read."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.bench.worlds import MODEL
from unmask.bench.costs import FEATURES, TERMS, Calibration, Costs, Fit, fit_costs
from unmask.errors import InvalidValueError


def steps(count: int, random: np.random.Generator) -> np.ndarray:
    """Features of steps such as a scheduler makes."""
    spans = random.integers(1, 32, count)
    rows = spans * random.integers(4, 60, count)
    keys = spans * random.integers(20, 900, count)
    return np.column_stack([spans, rows, keys, rows * keys // spans, random.integers(1, rows + 1)])


def error(costs: Costs, features: np.ndarray, seconds: np.ndarray, told: np.ndarray) -> float:
    """Of ``costs``, raised alike as they fit best: squared, relative to what was ``told``."""
    wanted, given = seconds / told, (costs.step + costs.of(features)) / told
    return float(wanted @ wanted - (wanted @ given) ** 2 / (given @ given))


def test_known_costs_are_found():
    known = Costs(step=2e-3, span=1e-4, row=3e-5, key=1e-7, pair=4e-9, candidate=2e-5)
    features = steps(400, np.random.default_rng(0))
    found, fit = fit_costs(features, known.step + known.of(features))
    assert [getattr(found, term) for term in TERMS] == pytest.approx([getattr(known, term) for term in TERMS])
    assert fit.steps == 400
    assert fit.p95_error < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_none_is_negative_and_no_other_is_better(seed):
    """Noise asks for negative costs; the best of the others is found, as no small change of it is better."""
    random = np.random.default_rng(seed)
    features = steps(60, random)
    known = Costs(step=2e-3, row=3e-5)
    seconds = (known.step + known.of(features)) * random.lognormal(0, 0.4, 60)
    found, _ = fit_costs(features, seconds)
    told = found.step + found.of(features)
    best = error(found, features, seconds, told)
    for term in TERMS:
        for change in (-1e-2, 1e-2):
            size = (getattr(found, term) or getattr(known, term) or 1e-9) * change
            other = msgspec.structs.replace(found, **{term: max(0.0, getattr(found, term) + size)})
            assert error(other, features, seconds, told) >= best * (1 - 1e-6)
    assert min(getattr(found, term) for term in TERMS) >= 0


def test_steps_that_are_alike_are_told_by_their_mean():
    """However noisy they are; and some that were held up for long change little but the height of all."""
    random = np.random.default_rng(5)
    features = steps(4000, random)
    known = Costs(step=2e-3, row=3e-5)
    seconds = (known.step + known.of(features)) * random.lognormal(-0.08, 0.4, 4000)  # 1 on average
    for held_up in (0, 3):
        seconds[:held_up] += 5.0
        found, _ = fit_costs(features, seconds)
        told = found.step + found.of(features)
        assert told.sum() == pytest.approx(seconds.sum())
        rises = told / (known.step + known.of(features)) * (seconds.sum() - 5.0 * held_up) / seconds.sum()
        assert (abs(rises - 1) < 0.05).all()


def test_few_steps_are_enough_not_to_fail():
    costs, _ = fit_costs(np.ones((1, FEATURES), dtype=np.int64), np.array([0.5]))
    assert costs.step + sum(costs.of(np.ones((1, FEATURES), dtype=np.int64))) == pytest.approx(0.5)


def test_written_and_read(tmp_path):
    path = str(tmp_path / "costs.json")
    known = Calibration(
        model=MODEL,
        costs=Costs(step=0.5, pair=1e-9),
        fit=Fit(10, 0.1, 0.2),
        request_seconds=0.003,
        threads=1,
        device="cpu",
        host="here",
        version="0",
    )
    known.save(path)
    assert Calibration.load(path) == known


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (('"step": 0.5', '"step": -0.5'), "costs.step"),
        (('"step": 0.5', '"step": 0.0'), "costs"),
        (('"step": 0.5', '"step": "fast"'), "step"),
        (('"request_seconds": 0.003', '"request_seconds": -1'), "request_seconds"),
        (('"threads": 1', '"thread": 1'), "threads"),
        (("{", ""), "no measured costs"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, change, field):
    path = tmp_path / "costs.json"
    test_written_and_read(tmp_path)
    path.write_text(path.read_text().replace(*change, 1))
    with pytest.raises(InvalidValueError, match=field) as caught:
        Calibration.load(str(path))
    assert str(path) in caught.value.message

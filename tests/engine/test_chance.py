"""Rules that leave something to chance: what their draws come to."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from unmask.decoding.random import CHANCE, uniform
from unmask.decoding.rules import RULES
from unmask.engine.proposals import Chances
from unmask.engine.runner import _with_chances


def test_alg_temp_draws_from_the_softmax_of_the_scores():
    """The best of the disturbed scores is a sample from softmax(score / alg_temp), as Dream draws its positions."""
    scores, rows = torch.tensor([0.9, 0.5, 0.1, 0.3], dtype=torch.float64), 40_000
    position = torch.arange(4 * rows)
    draw = uniform(torch.full_like(position, 3), position, torch.zeros_like(position), CHANCE)
    chances = Chances(draw, torch.full((4 * rows,), 0.5, dtype=torch.float64))
    part = SimpleNamespace(chances=chances, rule=RULES["maskgit_plus"])
    best = _with_chances(part, scores.repeat(rows)).view(rows, 4).argmax(dim=1)
    observed = torch.bincount(best, minlength=4) / rows
    torch.testing.assert_close(observed.double(), torch.softmax(scores / 0.5, dim=0), atol=0.01, rtol=0)


def test_without_alg_temp_scores_stay_as_they_are():
    scores = torch.tensor([0.9, 0.5], dtype=torch.float64)
    chances = Chances(torch.tensor([0.1, 0.7], dtype=torch.float64), torch.zeros(2, dtype=torch.float64))
    part = SimpleNamespace(chances=chances, rule=RULES["entropy"])
    assert torch.equal(_with_chances(part, scores), scores)

"""Rules that leave something to chance: what their draws come to."""

from __future__ import annotations

import torch

from unmask.decoding.propose import Chances, Score, Scoring, propose
from unmask.decoding.random import CHANCE, uniform


def test_alg_temp_draws_from_the_softmax_of_the_scores():
    """The best of the disturbed scores is a sample from softmax(score / alg_temp), as Dream draws its positions."""
    rows, logits = 40_000, torch.tensor([[4.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    plain = propose(logits.clone(), None, Scoring(tempered=True)).score.double()
    position = torch.arange(3 * rows)
    draw = uniform(torch.full_like(position, 3), position, torch.zeros_like(position), CHANCE)
    chances = Chances(draw, torch.full((3 * rows,), 0.5, dtype=torch.float64))
    disturbed = propose(logits.repeat(rows, 1), None, Scoring(tempered=True), chances=chances).score
    observed = torch.bincount(disturbed.view(rows, 3).argmax(dim=1), minlength=3) / rows
    torch.testing.assert_close(observed.double(), torch.softmax(plain / 0.5, dim=0), atol=0.01, rtol=0)


def test_a_score_of_chance_is_the_draw():
    draw = torch.tensor([0.1, 0.7], dtype=torch.float64)
    score = propose(torch.randn(2, 5), None, Scoring(Score.CHANCE), chances=Chances(draw, torch.ones(2))).score
    assert torch.equal(score, -draw)

"""Proposals against plain softmax arithmetic, and the shape of what is drawn."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask.decoding.propose import Chances, EndTokens, Sampling, Score, Scoring
from unmask.decoding.propose import propose as propose_by
from unmask.decoding.random import CHANCE, NOISE, uniform, uniform_array

VOCAB, MASK = 12, 3


def propose(logits, mask_id, dtype, ends, sampling, *, tempered=False):
    """Token and probability, what most rules go by."""
    proposals = propose_by(logits, mask_id, Scoring(Score.PROBABILITY, dtype, tempered), ends, sampling)
    return proposals.token, proposals.score


def random_logits(seed: int, rows: int) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def sampling(rows, temperature=1.0, top_p=1.0, top_k=0, seed=1, step=0, greedy=False):
    position = torch.arange(rows)
    return Sampling(
        temperature=torch.full((rows,), temperature),
        top_p=torch.full((rows,), top_p, dtype=torch.float64),
        top_k=torch.full((rows,), top_k),
        draw=uniform(torch.full((rows,), seed), position, torch.full((rows,), step)),
        greedy=torch.full((rows,), greedy),
        filtered=top_p < 1 or top_k > 0,
    )


@given(seed=st.integers(0, 10**6))
def test_greedy_is_argmax_without_the_mask_and_its_softmax(seed):
    logits = random_logits(seed, 5)
    probabilities = torch.softmax(logits.double(), dim=-1)
    allowed = probabilities.clone()
    allowed[:, MASK] = -1
    token, score = propose(logits.clone(), MASK, torch.float64, None, None)
    assert token.tolist() == allowed.argmax(-1).tolist()
    torch.testing.assert_close(score, allowed.max(-1).values)


def test_a_mask_that_the_model_wants_is_not_proposed():
    logits = torch.zeros(1, VOCAB)
    logits[0, MASK] = 50.0
    for how in (None, sampling(1)):
        token, score = propose(logits.clone(), MASK, torch.float32, None, how)
        assert token.item() != MASK
        assert score.item() < 1e-9


def test_end_tokens_can_be_forbidden_or_put_last():
    logits = torch.zeros(3, VOCAB)
    logits[:, 7] = 10.0
    logits[:, 8] = 5.0
    ends = EndTokens(
        torch.tensor([7]), never=torch.tensor([True, False, False]), last=torch.tensor([False, True, False])
    )
    token, score = propose(logits, MASK, torch.float64, ends, None)
    assert token.tolist() == [8, 7, 7]
    assert score[0] > 0.9  # the softmax leaves the forbidden token out
    assert score[1] == 0.0  # chosen, but committed only when nothing else is left
    assert score[2] > 0.9


def test_a_drawn_end_token_that_is_put_last_scores_zero():
    logits = torch.zeros(50, VOCAB)
    logits[:, 7] = 3.0
    ends = EndTokens(torch.tensor([7]), never=torch.zeros(50, dtype=torch.bool), last=torch.ones(50, dtype=torch.bool))
    token, score = propose(logits, MASK, torch.float64, ends, sampling(50), tempered=True)
    assert 0 < (token == 7).sum() < 50
    assert score[token == 7].eq(0).all()
    assert score[token != 7].gt(0).all()


@pytest.mark.parametrize("score", [Score.PROBABILITY, Score.MARGIN, Score.NEGATIVE_ENTROPY])
@pytest.mark.parametrize("how", [None, sampling(2, greedy=True)], ids=["plain", "filtered"])
def test_end_tokens_that_are_put_last_score_least_whatever_the_rule_goes_by(score, how):
    logits = torch.zeros(2, VOCAB)
    logits[0, 7] = 20.0  # sure of the end token
    logits[1, 8] = 0.1  # hardly sure of anything
    ends = EndTokens(torch.tensor([7]), never=torch.zeros(2, dtype=torch.bool), last=torch.ones(2, dtype=torch.bool))
    ours = propose_by(logits, MASK, Scoring(score, tempered=True), ends, how)
    assert ours.token.tolist() == [7, 8]
    assert ours.score[0] < ours.score[1]
    assert ours.score.isfinite().all()


def test_draws_follow_the_distribution():
    logits = random_logits(5, 1)
    logits[:, MASK] = -torch.inf
    rows = 40_000
    token, _ = propose(logits.repeat(rows, 1), MASK, torch.float32, None, sampling(rows, temperature=1.5))
    expected = torch.softmax(logits[0] / 1.5, dim=-1)
    observed = torch.bincount(token, minlength=VOCAB) / rows
    torch.testing.assert_close(observed, expected, atol=0.012, rtol=0)


def test_top_k_and_top_p_cut_the_tail():
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.2, 1e-9, 0.1, *[1e-9] * 7]])).repeat(5_000, 1)
    by_k, _ = propose(logits.clone(), MASK, torch.float32, None, sampling(5_000, top_k=2))
    assert set(by_k.tolist()) == {0, 1}
    by_p, _ = propose(logits.clone(), MASK, torch.float32, None, sampling(5_000, top_p=0.75))
    assert set(by_p.tolist()) == {0, 1, 2}
    tiny, _ = propose(logits.clone(), MASK, torch.float32, None, sampling(5_000, top_p=1e-6))
    assert set(tiny.tolist()) == {0}


def test_the_score_of_a_drawn_token():
    """D2F scores by the tempered, filtered distribution; the others by the model's own."""
    logits = random_logits(9, 64)
    own = torch.softmax(logits.double(), dim=-1)
    token, score = propose(logits.clone(), MASK, torch.float64, None, sampling(64, temperature=0.5))
    torch.testing.assert_close(score, own[torch.arange(64), token])
    logits[:, MASK] = -torch.inf
    tempered = torch.softmax(logits.double() / 0.5, dim=-1)
    token, score = propose(logits.clone(), MASK, torch.float64, None, sampling(64, temperature=0.5), tempered=True)
    torch.testing.assert_close(score, tempered[torch.arange(64), token], atol=1e-6, rtol=1e-6)


def test_each_row_draws_with_its_own_parameters():
    logits = random_logits(11, 6)
    how = sampling(6)
    how.temperature[::2] = 1e-6
    how.top_k[1], how.filtered = 1, True
    token, _ = propose(logits.clone(), MASK, torch.float32, None, how)
    greedy, _ = propose(logits.clone(), MASK, torch.float32, None, None)
    assert token[[0, 1, 2, 4]].tolist() == greedy[[0, 1, 2, 4]].tolist()


def slow_filtered(logits: torch.Tensor, top_p: float, top_k: int) -> torch.Tensor:
    """Dream's filters, one row: the smallest prefix of the sorted tokens with more than top_p, then the k best."""
    order = sorted(range(VOCAB), key=lambda i: -logits[i])
    probabilities = torch.softmax(logits.double(), dim=-1)
    kept, sum_before = [], 0.0
    for rank, i in enumerate(order):
        if rank == 0 or (sum_before < top_p and (not top_k or rank < top_k)):
            kept.append(i)
        sum_before += probabilities[i].item()
    filtered = torch.zeros(VOCAB, dtype=torch.float64)
    filtered[kept] = probabilities[kept]
    return filtered / filtered.sum()


@given(
    seed=st.integers(0, 10**6),
    score=st.sampled_from([Score.PROBABILITY, Score.MARGIN, Score.NEGATIVE_ENTROPY]),
    top_p=st.sampled_from([1.0, 0.9, 0.3]),
    top_k=st.sampled_from([0, 1, 3]),
)
def test_greedy_scores_of_a_filtered_distribution(seed, score, top_p, top_k):
    """Dream's scores: of the likeliest token, its lead over the next, the negative entropy; filters count at T = 0."""
    logits = random_logits(seed, 4)
    logits[:, MASK] = -20.0
    how = sampling(4, top_p=top_p, top_k=top_k, greedy=True)
    filtered = top_p < 1 or top_k
    ours = propose_by(
        logits.clone(), MASK, Scoring(score, torch.float64, tempered=True), None, how if filtered else None
    )
    for row in range(4):
        p = slow_filtered(logits[row], top_p, top_k)
        best, second = p.topk(2).values.tolist()
        expected = {
            Score.PROBABILITY: best,
            Score.MARGIN: best - second,
            Score.NEGATIVE_ENTROPY: (p * torch.log(p + 1e-10)).sum().item(),
        }
        assert ours.token[row] == logits[row].argmax() == ours.likeliest[row]
        assert abs(ours.score[row].item() - expected[score]) < 1e-6


def test_the_likeliest_token_is_told_of_drawn_rows_too():
    logits = random_logits(4, 200)
    ours = propose_by(logits.clone(), None, Scoring(Score.NEGATIVE_ENTROPY), None, sampling(200, temperature=2.0))
    assert ours.likeliest.tolist() == logits.argmax(-1).tolist()
    assert ours.token.tolist() != ours.likeliest.tolist()


def test_streams_of_draws_differ_and_numpy_draws_the_same():
    position = torch.arange(50)
    seed, step = torch.full((50,), 5), torch.full((50,), 2)
    by_stream = {stream: uniform(seed, position, step, stream).tolist() for stream in (0, CHANCE, NOISE)}
    assert len({tuple(draws) for draws in by_stream.values()}) == 3
    for stream, draws in by_stream.items():
        assert uniform_array(5, position.numpy(), 2, stream).tolist() == draws


def slow_uniform(seed: int, position: int, step: int) -> float:
    """SplitMix64's finaliser over Python's unbounded integers."""
    value = seed
    for word in (0, position, step):
        value = (value + word) % 2**64
        value = (value + 0x9E3779B97F4A7C15) % 2**64
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) % 2**64
        value ^= value >> 31
    return (value >> 11) * 2.0**-53


@given(seed=st.integers(-(2**63), 2**63 - 1), position=st.integers(0, 2**20), step=st.integers(0, 2**20))
def test_uniform_is_splitmix(seed, position, step):
    drawn = uniform(torch.tensor([seed]), torch.tensor([position]), torch.tensor([step])).item()
    assert drawn == slow_uniform(seed, position, step)
    assert 0 <= drawn < 1


@pytest.mark.parametrize("kind", Score)
def test_the_score_is_nan_where_the_logits_are_not_finite_and_there_alone(kind):
    logits = random_logits(5, 5)
    logits[1, 7], logits[2, 0], logits[3, 5] = torch.nan, torch.inf, -torch.inf
    chances = Chances(torch.full((5,), 0.5, dtype=torch.float64), torch.ones(5, dtype=torch.float64))
    for scoring in (Scoring(kind), Scoring(kind, torch.float64, tempered=True)):
        for drawn in (None, sampling(5, temperature=0.5, top_p=0.9)):
            score = propose_by(logits.clone(), MASK, scoring, None, drawn, chances).score
            assert score.isnan().tolist() == [False, True, True, False, False]

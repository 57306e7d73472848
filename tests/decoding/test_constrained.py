"""Fillings against brute force: every canvas tried, the best one picked, the probabilities summed."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.constraints.toys import END, accepts, automaton
from unmask.decoding.constrained import Stretch, propose_filling
from unmask.decoding.propose import Sampling, Score, Scoring

VOCAB, MASK = 5, 4


@st.composite
def problems(draw):
    """A random automaton of three states over tokens 1 to 3, a canvas that one of its answers began, and logits.

    The canvas has tokens here and there; of the masked positions a first part are candidates, the rest is free.
    """
    edges = [
        (source, token, target)
        for source in range(3)
        for token in range(1, 4)
        if (target := draw(st.integers(-1, 2))) >= 0
    ]
    accepting = draw(st.sets(st.integers(0, 2), min_size=1))
    length = draw(st.integers(2, 5))
    min_tokens = draw(st.sampled_from([0, 0, 1, 2]))
    valid = [
        tokens
        for tokens in itertools.product(range(MASK), repeat=length)
        if accepts(edges, accepting, tokens) and END not in tokens[:min_tokens]
    ]
    assume(valid)
    answer = draw(st.sampled_from(valid))
    masked = np.array(draw(st.lists(st.booleans(), min_size=length, max_size=length)))
    assume(masked.any())
    last = draw(st.integers(int(masked.argmax()), length - 1))
    candidates = np.flatnonzero(masked[: last + 1])
    seed = draw(st.integers(0, 2**31))
    scale = draw(st.sampled_from([0.1, 1.0, 3.0, 200.0]))
    logits = np.random.default_rng(seed).normal(0, scale, (len(candidates), VOCAB)).astype(np.float32)
    return SimpleNamespace(**locals())


def canvas(problem):
    """Its prompt is one token long."""
    tokens = np.array([1, *np.where(problem.masked, MASK, problem.answer)])
    masked = np.array([False, *problem.masked])
    return SimpleNamespace(prompt_length=1, limit=problem.length + 1, tokens=tokens, masked=masked)


def stretch_of(problem):
    made = automaton(problem.edges, problem.accepting, VOCAB)
    assert made is not None
    return Stretch.of(canvas(problem), made, problem.candidates + 1, problem.min_tokens)


def fillings(problem):
    """What the candidates may become: each filling that some choice for the other masked positions completes."""
    fixed = ~problem.masked
    answer = np.array(problem.answer)
    fitting = [tokens for tokens in problem.valid if (np.array(tokens) == answer)[fixed].all()]
    return sorted({tuple(np.array(tokens)[problem.candidates].tolist()) for tokens in fitting})


def log_probabilities(problem, temperature=1.0):
    logits = torch.from_numpy(problem.logits).double() / temperature
    per_row = torch.log_softmax(logits, dim=-1).numpy()
    return np.array([sum(per_row[row, token] for row, token in enumerate(f)) for f in fillings(problem)])


PLAIN = Scoring(dtype=torch.float64)


def run(problem, sampling=None, scoring=PLAIN):
    logits = torch.from_numpy(problem.logits.copy())
    return propose_filling(logits, stretch_of(problem), MASK, scoring, None, sampling, None, None, None, 2)


def sampling_of(problem, temperature, draws, top_p=1.0, top_k=0):
    count = len(problem.candidates)
    return Sampling(
        torch.full((count,), temperature),
        torch.full((count,), top_p, dtype=torch.float64),
        torch.full((count,), top_k),
        torch.tensor(draws, dtype=torch.float64),
        torch.zeros(count, dtype=torch.bool),
        top_p < 1 or top_k > 0,
    )


@given(problems())
def test_the_most_probable_valid_filling(problem):
    found = tuple(run(problem).token.tolist())
    possible = fillings(problem)
    weights = log_probabilities(problem)
    assert found in possible
    assert weights[possible.index(found)] == pytest.approx(weights.max(), rel=1e-6, abs=1e-5)


@given(problems())
def test_scores_are_what_each_position_has_in_valid_answers(problem):
    proposals = run(problem)
    possible, weights = fillings(problem), log_probabilities(problem)
    joint = np.exp(weights - weights.max())
    joint /= joint.sum()
    for row, token in enumerate(proposals.token.tolist()):
        exact = sum(p for filling, p in zip(possible, joint, strict=True) if filling[row] == token)
        assert float(proposals.score[row]) == pytest.approx(exact, rel=2e-3, abs=1e-5)


@given(problems(), st.sampled_from([0.3, 1.0, 1.5]), st.data())
def test_draws_are_those_of_the_exact_posterior(problem, temperature, data):
    """Left to right, a draw u picks the token in which u falls of the exact conditional distribution."""
    draws = [data.draw(st.floats(0, 1, exclude_max=True)) for _ in problem.candidates]
    token = run(problem, sampling_of(problem, temperature, draws)).token.tolist()
    possible, weights = fillings(problem), log_probabilities(problem, temperature)
    joint = np.exp(weights - weights.max())
    left: tuple[int, ...] = ()
    for row, draw in enumerate(draws):
        mass = np.zeros(VOCAB)
        for filling, p in zip(possible, joint, strict=True):
            if filling[:row] == left:
                mass[filling[row]] += p
        total = mass.sum()
        assume(total > 1e-200)
        low, high = mass[: token[row]].sum() / total, mass[: token[row] + 1].sum() / total
        assert low - 1e-5 <= draw <= high + 1e-5
        left = (*left, token[row])
    assert left in possible


@given(problems(), st.sampled_from([(0.5, 0), (1.0, 1), (0.9, 2)]), st.data())
def test_filters_leave_valid_fillings(problem, cut, data):
    """top_p and top_k act on what is valid: there is always something left; top_k 1 takes the likeliest each time."""
    draws = [data.draw(st.floats(0, 1, exclude_max=True)) for _ in problem.candidates]
    assert tuple(run(problem, sampling_of(problem, 1.0, draws, *cut)).token.tolist()) in fillings(problem)


@given(problems(), st.sampled_from([1e-45, 1e-30, 1e-3, 100.0]))
def test_any_temperature(problem, temperature):
    """Probabilities that no float64 holds make no filling impossible."""
    draws = [0.5] * len(problem.candidates)
    assert tuple(run(problem, sampling_of(problem, temperature, draws)).token.tolist()) in fillings(problem)


@given(problems())
def test_a_model_that_excludes_what_must_be(problem):
    """Logits of -inf or NaN: the answer is valid all the same."""
    problem.logits[:, 1:] = -np.inf
    problem.logits[0] = np.nan
    assert tuple(run(problem).token.tolist()) in fillings(problem)


@given(problems(), st.sampled_from([*Score]))
def test_every_score_is_finite(problem, kind):
    proposals = run(problem, scoring=Scoring(kind, torch.float64))
    assert proposals.score.isfinite().all()


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_any_part_of_a_filling_can_be_completed(problem, rng):
    """Commit a random part, ask again, until all candidates are decided: what stands is always valid."""
    while len(problem.candidates):
        token = run(problem).token.tolist()
        keep = [rng.random() < 0.5 for _ in token]
        keep[rng.randrange(len(keep))] = True
        answer = np.array(problem.answer)
        for position, chosen, kept in zip(problem.candidates, token, keep, strict=True):
            if kept:
                answer[position] = chosen
                problem.masked[position] = False
        problem.answer = tuple(answer.tolist())
        problem.logits = problem.logits[[not kept for kept in keep]]
        problem.candidates = problem.candidates[[not kept for kept in keep]]
        decided = np.flatnonzero(~problem.masked)
        assert any(all(tokens[p] == answer[p] for p in decided) for tokens in problem.valid)


@given(problems(), st.randoms(use_true_random=False))
def test_any_edits_beside_any_part_of_a_filling_are_valid(problem, rng):
    """Decided tokens are candidates too: whichever of them are replaced, the canvas can still be completed."""
    problem.candidates = np.arange(problem.last + 1)
    problem.logits = np.random.default_rng(problem.seed).normal(0, 2, (problem.last + 1, VOCAB)).astype(np.float32)
    token = run(problem).token.tolist()
    taken = [rng.random() < 0.5 for _ in token]
    answer = [new if take else old for new, old, take in zip(token, problem.answer, taken, strict=False)]
    stands = [p for p in problem.candidates if taken[p] or not problem.masked[p]]
    stands += [p for p in range(problem.last + 1, problem.length) if not problem.masked[p]]
    answer += problem.answer[problem.last + 1 :]
    assert any(all(tokens[p] == answer[p] for p in stands) for tokens in problem.valid)

"""A request's tokens do not depend on who shares its steps."""

from __future__ import annotations

import random

import pytest

from tests.engines import absorb, drain, generate, make_loop, submit


def mixed_requests(seed: int, count: int = 32) -> dict[str, tuple[list[int], dict]]:
    """Prompts of 2 to 400 tokens, every rule, different budgets and block lengths."""
    rng = random.Random(seed)
    lengths = [2, 400, *(rng.choice([rng.randint(2, 40), rng.randint(40, 400)]) for _ in range(count - 2))]
    requests = {}
    for number, length in enumerate(lengths):
        prompt = [1, *(rng.randrange(20, 1000) for _ in range(length - 1))]
        block = rng.choice([8, 16, 32])
        params = {"block_length": block, "max_tokens": rng.choice([1, 7, 16, 33, 70]), "ignore_eos": rng.random() < 0.5}
        params |= rng.choice(
            [
                {"rule": "low_confidence", "steps": rng.randint(1, block)},
                {"rule": "threshold", "threshold": rng.choice([0.3, 0.7, 0.9, 1.0])},
                {"rule": "factor", "factor": rng.choice([0.5, 1.0, 2.0])},
                {"rule": "d2f", "threshold": rng.choice([0.5, 0.9, 1.0]), "add_threshold": rng.choice([0.1, 0.5])},
            ]
        )
        requests[str(number)] = (prompt, params)
    return requests


def outcome(result):
    return (
        result.ids,
        result.finish,
        result.stats.forwards,
        result.stats.canvas_tokens + result.stats.cached,
        result.stats.committed,
    )


@pytest.fixture(scope="module")
def alone(loop):
    return {name: outcome(generate(loop, prompt, **params)) for name, (prompt, params) in mixed_requests(1).items()}


@pytest.mark.parametrize(
    "order", ["as given", pytest.param("reversed", marks=pytest.mark.slow), "shuffled", "one joins per step"]
)
def test_batched_equals_alone(loop, alone, order):
    requests = mixed_requests(1)
    names = list(requests)
    if order == "reversed":
        names.reverse()
    elif order != "as given":
        random.Random(order).shuffle(names)
    results = {}
    for name in names:
        prompt, params = requests[name]
        submit(loop, name, prompt, **params)
        if order == "one joins per step":
            absorb(loop.step(), results)
    drain(loop, results)
    assert {name: outcome(result) for name, result in results.items()} == alone


def test_narrow_row_budget_changes_nothing(alone):
    """Admission under pressure: requests wait, none is changed or lost."""
    loop = make_loop("unmask-tiny", max_running=5, max_rows=450, kv_tokens=2048)
    for name, (prompt, params) in mixed_requests(1).items():
        submit(loop, name, prompt, **params)
    assert {name: outcome(result) for name, result in drain(loop).items()} == alone


PROMPT = [1, 2, *random.Random(5).choices(range(20, 1000), k=12), 3]  # nonsense: the model is unsure of every token
SAMPLED = {"temperature": 1.0, "max_tokens": 48, "ignore_eos": True, "end_tokens": "never"}


@pytest.mark.parametrize("rule", ["low_confidence", "threshold", "factor", "d2f"])
def test_equal_seeds_give_equal_output_batched_or_alone(loop, rule):
    sampling = SAMPLED | {"rule": rule, "top_p": 0.95, "top_k": 200}
    alone = generate(loop, PROMPT, seed=7, **sampling).ids
    for name, (prompt, params) in mixed_requests(2, count=8).items():
        submit(loop, f"neighbour-{name}", prompt, **params)
    submit(loop, "same", PROMPT, seed=7, **sampling)
    submit(loop, "other", PROMPT, seed=8, **sampling)
    results = drain(loop)
    assert results["same"].ids == alone
    assert results["other"].ids != alone


def test_without_a_seed_outputs_differ(loop):
    for number in range(4):
        submit(loop, str(number), PROMPT, **SAMPLED)
    assert len({tuple(result.ids) for result in drain(loop).values()}) == 4

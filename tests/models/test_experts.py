"""Experts against a slow and obvious reference: row by row, expert by expert."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from unmask.models.experts import Experts
from unmask.models.feed_forward import GatedMlp
from unmask.models.linear import Linear
from unmask.models.spec import ExpertShape

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@st.composite
def shapes(draw):
    groups = draw(st.integers(1, 4))
    experts = groups * draw(st.integers(2, 5))
    groups_used = draw(st.integers(1, groups))
    return ExpertShape(
        experts=experts,
        used=draw(st.integers(1, groups_used * experts // groups)),
        intermediate=draw(st.sampled_from([3, 8, 16])),
        shared_intermediate=draw(st.sampled_from([0, 5, 8])),
        score=draw(st.sampled_from(["softmax", "sigmoid"])),
        bias=draw(st.sampled_from(["none", "selection", "weights"])),
        normalized=draw(st.booleans()),
        scale=draw(st.sampled_from([1.0, 2.5])),
        groups=groups,
        groups_used=groups_used,
    )


def make(shape: ExpertShape, hidden: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Experts:
    generator = torch.Generator().manual_seed(seed)

    def random(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator).to(dtype)

    inner, shared = shape.intermediate, shape.shared_intermediate
    shared_gate_up, shared_down = Linear([], random(2 * shared, hidden)), Linear([], random(hidden, shared))
    return Experts(
        shape,
        router=random(shape.experts, hidden) / hidden**0.5,
        bias=None if shape.bias == "none" else random(shape.experts).abs() / 4,
        gate_up=random(shape.experts, 2 * inner, hidden) / hidden**0.5,
        down=random(shape.experts, hidden, inner) / inner**0.5,
        shared=GatedMlp(shared_gate_up, shared_down) if shared else None,
    )


def swiglu(row, gate_up, down):
    gate, up = (gate_up @ row).chunk(2)
    return down @ (F.silu(gate) * up)


def expected_row(experts: Experts, row: torch.Tensor) -> torch.Tensor:
    """What one row gets, from the definition."""
    shape = experts.shape
    logits = experts.router @ row
    scores = (logits.softmax(0) if shape.score == "softmax" else logits.sigmoid()).tolist()
    bias = [0.0] * shape.experts if experts.bias is None else experts.bias.tolist()
    ranks = [score + extra for score, extra in zip(scores, bias, strict=True)]
    size = shape.experts // shape.groups
    groups = [range(first, first + size) for first in range(0, shape.experts, size)]
    groups.sort(key=lambda group: -sum(sorted((ranks[e] for e in group), reverse=True)[:2]))
    allowed = [e for group in groups[: shape.groups_used] for e in group]
    chosen = sorted(allowed, key=lambda e: -ranks[e])[: shape.used]
    weights = {e: ranks[e] if shape.bias == "weights" else scores[e] for e in chosen}
    total = sum(weights.values()) + 1e-20 if shape.normalized else 1.0
    result = torch.zeros_like(row)
    for e in chosen:
        result += weights[e] / total * shape.scale * swiglu(row, experts.gate_up[e], experts.down[e])
    if experts.shared is not None:
        result += swiglu(row, experts.shared.gate_up.weight, experts.shared.down.weight)
    return result


@given(shapes(), st.sampled_from([6, 8]), st.integers(1, 9), st.integers(0, 99))
def test_every_row_gets_what_the_definition_says(shape, hidden, rows, seed):
    """Sizes that torch's grouped product takes, and sizes that it does not."""
    experts = make(shape, hidden, seed)
    batch = torch.randn(rows, hidden, generator=torch.Generator().manual_seed(seed))
    expected = torch.stack([expected_row(experts, row) for row in batch])
    torch.testing.assert_close(experts(batch), expected, **CLOSE)


GROUPED = ExpertShape(
    experts=16,
    used=4,
    intermediate=32,
    score="sigmoid",
    bias="selection",
    normalized=True,
    scale=2.5,
    groups=4,
    groups_used=2,
)


def test_a_row_does_not_depend_on_its_neighbours():
    experts = make(GROUPED, 64)
    batch = torch.randn(50, 64, generator=torch.Generator().manual_seed(1))
    alone = torch.cat([experts(batch[n : n + 1]) for n in range(50)])
    torch.testing.assert_close(experts(batch), alone, atol=1e-6, rtol=1e-5)
    backwards = experts(batch.flip(0)).flip(0)
    torch.testing.assert_close(experts(batch), backwards, atol=1e-6, rtol=1e-5)


def test_the_router_is_precise_in_any_dtype():
    experts = make(GROUPED, 64, dtype=torch.bfloat16)
    assert experts.router.dtype == experts.bias.dtype == torch.float32
    chosen, shares = experts.route(torch.randn(3, 64).bfloat16())
    assert chosen.shape == shares.shape == (3, 4)
    assert shares.dtype == torch.float32
    torch.testing.assert_close(shares.sum(dim=-1), torch.full((3,), 2.5))
    assert experts(torch.randn(3, 64).bfloat16()).dtype == torch.bfloat16


def test_without_torchs_grouped_product(monkeypatch):
    experts = make(GROUPED, 64)
    batch = torch.randn(20, 64, generator=torch.Generator().manual_seed(2))
    grouped = experts(batch)
    monkeypatch.delattr(F, "grouped_mm", raising=False)
    torch.testing.assert_close(experts(batch), grouped, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shared", [0, 8])
def test_parameters(shared):
    shape = ExpertShape(experts=4, used=2, intermediate=8, shared_intermediate=shared, bias="selection")
    experts = make(shape, 16)
    assert experts.parameters == 4 * 16 + 4 + 4 * 3 * 8 * 16 + 3 * shared * 16
    assert len(list(experts.linears())) == (2 if shared else 0)

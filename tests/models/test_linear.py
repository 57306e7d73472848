"""Linear layers with unmerged adapters, against the same layers with the adapters merged."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from unmask.models.linear import AdaptedRows, Linear

INPUTS, SIZES = 24, (16, 8, 8)
PARTS = list(zip("qkv", SIZES, strict=True))


def drawn(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def plain():
    return Linear(PARTS, drawn(sum(SIZES), INPUTS, seed=1), drawn(sum(SIZES), seed=2))


@pytest.fixture(scope="module")
def updates():
    """By adapter, the update of all three parts: halves of rank 4 for the first, 2 and nothing and 3 for the second."""
    ranks = {5: (4, 4, 4), 9: (2, 0, 3)}
    return {
        adapter: (
            drawn(sum(each), INPUTS, seed=adapter),
            torch.block_diag(*(drawn(size, rank, seed=adapter + rank) for size, rank in zip(SIZES, each, strict=True))),
        )
        for adapter, each in ranks.items()
    }


@pytest.fixture(scope="module")
def adapted(plain, updates):
    linear = Linear(PARTS, plain.weight, plain.bias)
    for adapter, (down, up) in updates.items():
        linear.attach(adapter, down, up)
    return linear


def test_parameters_count_no_adapters(plain, adapted):
    assert plain.parameters == adapted.parameters == sum(SIZES) * (INPUTS + 1)


@given(owners=st.lists(st.sampled_from([None, 5, 9, 7]), min_size=1, max_size=12), seed=st.integers(0, 2**32))
def test_every_row_goes_through_its_own_adapter(plain, adapted, updates, owners, seed):
    """Rows of two adapters, of one that has no update here, and of none, in any order."""
    rows = drawn(len(owners), INPUTS, seed=seed)
    groups = [
        AdaptedRows(adapter, torch.tensor([row for row, owner in enumerate(owners) if owner == adapter]).long())
        for adapter in (5, 7, 9)
    ]
    output, without = adapted(rows, groups), plain(rows)
    for row, owner in enumerate(owners):
        if owner in updates:
            down, up = updates[owner]
            merged = F.linear(rows[row], plain.weight + up @ down, plain.bias)
            torch.testing.assert_close(output[row], merged, atol=1e-4, rtol=1e-4)
        else:
            assert torch.equal(output[row], without[row])


def test_no_adapted_rows_no_difference(plain, adapted):
    rows = drawn(7, INPUTS, seed=3)
    assert torch.equal(adapted(rows), plain(rows))


def test_a_part_without_an_update_is_left_alone(plain, adapted):
    rows = drawn(7, INPUTS, seed=3)
    keys = slice(SIZES[0], SIZES[0] + SIZES[1])
    output = adapted(rows, [AdaptedRows(9, torch.arange(7))])
    assert torch.equal(output[:, keys], plain(rows)[:, keys])
    assert not torch.equal(output[:, : SIZES[0]], plain(rows)[:, : SIZES[0]])


def test_half_precision(plain, updates):
    down, up = updates[5]
    linear = Linear(PARTS, plain.weight.bfloat16(), plain.bias.bfloat16())
    linear.attach(5, down.bfloat16(), up.bfloat16())
    rows = drawn(3, INPUTS, seed=3)
    output = linear(rows.bfloat16(), [AdaptedRows(5, torch.tensor([0, 2]))])
    assert output.dtype == torch.bfloat16
    merged = F.linear(rows[[0, 2]], plain.weight + up @ down, plain.bias)
    torch.testing.assert_close(output[[0, 2]].float(), merged, atol=0.5, rtol=0.05)

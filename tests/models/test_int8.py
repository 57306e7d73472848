"""Int8 products: close to the float ones, and for every row the same whatever stands next to it."""

from __future__ import annotations

import weakref

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from unmask.models import int8
from unmask.models.int8 import Int8Weight, int8_unavailable
from unmask.models.linear import AdaptedRows, Linear

CPU = torch.device("cpu")
if int8_unavailable(CPU) is not None:
    pytest.skip(int8_unavailable(CPU), allow_module_level=True)

INPUTS, OUTPUTS = 96, 72


def drawn(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def error(output, expected):
    return ((output - expected).norm() / expected.norm()).item()


@pytest.fixture(scope="module")
def weight():
    return drawn(OUTPUTS, INPUTS, seed=1)


@pytest.fixture(scope="module")
def packed(weight):
    return Int8Weight(weight)


@pytest.mark.parametrize("rows", [1, 8, 32, 128])
def test_close_to_float(rows):
    weight, inputs = drawn(512, 256, seed=1) * 0.03, drawn(rows, 256, seed=2)
    assert error(Int8Weight(weight)(inputs), F.linear(inputs, weight)) < 0.02


def test_outputs_have_scales_of_their_own(weight):
    """One huge output row costs the others nothing."""
    inputs = drawn(8, INPUTS, seed=2)
    grown = weight.clone()
    grown[0] *= 1e6
    assert torch.equal(Int8Weight(grown)(inputs)[:, 1:], Int8Weight(weight)(inputs)[:, 1:])


def test_sums_do_not_saturate():
    """The largest activations against the largest weights of one sign, which 16-bit sums could not hold at 8 bits."""
    inputs, weight = torch.full((3, 512), 2.0), torch.full((8, 512), 0.5)
    torch.testing.assert_close(Int8Weight(weight)(inputs), F.linear(inputs, weight))
    torch.testing.assert_close(Int8Weight(-weight)(inputs), F.linear(inputs, -weight))


@given(
    scales=st.lists(st.sampled_from([0.0, 1e-30, 1e-3, 1.0, 77.0, 1e20]), min_size=1, max_size=40),
    seed=st.integers(0, 2**32),
)
def test_a_row_is_the_same_in_any_company(packed, scales, seed):
    """Bit for bit, beside rows far smaller and far larger than itself."""
    rows = drawn(len(scales), INPUTS, seed=seed) * torch.tensor(scales)[:, None]
    together = packed(rows)
    for row in range(len(rows)):
        assert torch.equal(packed(rows[row : row + 1])[0], together[row])
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(packed(rows[order]), together[order])


def test_a_row_is_the_same_on_any_number_of_threads():
    packed, rows = Int8Weight(drawn(1024, 256, seed=1)), drawn(130, 256, seed=2)
    alone = packed(rows)
    torch.set_num_threads(2)
    try:
        assert torch.equal(packed(rows), alone)
    finally:
        torch.set_num_threads(1)


def test_broken_rows_stay_among_themselves(packed):
    rows = drawn(3, INPUTS, seed=2)
    expected = packed(rows)
    rows[1, 5] = torch.nan
    output = packed(rows)
    assert output[1].isnan().all()
    assert torch.equal(output[[0, 2]], expected[[0, 2]])


def test_zeros(packed):
    assert torch.equal(packed(torch.zeros(2, INPUTS)), torch.zeros(2, OUTPUTS))
    assert torch.equal(Int8Weight(torch.zeros(4, INPUTS))(drawn(2, INPUTS, seed=1)), torch.zeros(2, 4))
    assert packed(torch.empty(0, INPUTS)).shape == (0, OUTPUTS)


def test_a_quantised_linear(weight):
    """Bias and adapters stay in float; the number of weights is what it was."""
    bias, down, up = drawn(OUTPUTS, seed=2), drawn(4, INPUTS, seed=3), drawn(OUTPUTS, 4, seed=4)
    linear = Linear([("a", 40), ("b", OUTPUTS - 40)], weight, bias)
    linear.attach(3, down, up)
    parameters = linear.parameters
    linear.quantize()
    linear.quantize()  # has nothing left to do
    assert linear.parameters == parameters
    rows = drawn(4, INPUTS, seed=5)
    plain, adapted = linear(rows), linear(rows, [AdaptedRows(3, torch.tensor([1, 3]))])
    assert error(plain, F.linear(rows, weight, bias)) < 0.02
    assert torch.equal(adapted[[0, 2]], plain[[0, 2]])
    torch.testing.assert_close(adapted[[1, 3]] - plain[[1, 3]], F.linear(F.linear(rows[[1, 3]], down), up))


def test_half_precision(weight):
    linear = Linear([("a", OUTPUTS)], weight.bfloat16(), torch.ones(OUTPUTS, dtype=torch.bfloat16))
    linear.quantize()
    rows = drawn(4, INPUTS, seed=5)
    output = linear(rows.bfloat16())
    assert output.dtype == torch.bfloat16
    assert error(output.float(), F.linear(rows, weight) + 1) < 0.03


def test_memory_falls():
    """The float weight is let go of."""
    linear = Linear([("a", 64)], torch.ones(64, 64))
    weight = weakref.ref(linear.weight)
    linear.quantize()
    assert weight() is None


def test_where_int8_is_not_available(monkeypatch):
    assert "meta" in int8_unavailable(torch.device("meta"))
    int8._unavailable_on_cpu.cache_clear()

    def missing(*_):
        raise RuntimeError("Didn't find engine for operation quantized::linear_prepack\nand more")

    monkeypatch.setattr(int8, "Int8Weight", missing)
    try:
        assert int8_unavailable(CPU).endswith("Didn't find engine for operation quantized::linear_prepack")
    finally:
        int8._unavailable_on_cpu.cache_clear()


def test_packing_leaves_the_process_as_it_was(weight):
    before = torch.backends.quantized.engine
    Int8Weight(weight)
    assert torch.backends.quantized.engine == before

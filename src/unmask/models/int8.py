"""Matrix products in int8 on the CPU, several times as fast as in float32 and in a quarter of the memory.

Weights have one scale per output, activations one per row: a request's rows come out bit for bit the same whatever
shares their batch. Products of integers are exact, so what is lost is lost in rounding the two operands. Shape letters
as in ``models/linear.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

# FBGEMM's AVX2 kernels add pairs of products in 16 bits, which saturate in silence: activations get all eight bits
# (1 to 255, zero at 128) because outliers need them, weights seven; 2 * 255 * 64 < 2**15.
_ACTIVATION_STEPS, _ZERO, _WEIGHT_STEPS = 127, 128, 64
_TINY = torch.finfo(torch.float32).tiny


class Int8Weight:
    """A weight [O, I], packed as int8 for this CPU; the float original is not kept."""

    def __init__(self, weight: Tensor) -> None:
        self.shape = weight.shape
        weight = weight.float()
        scales = (weight.abs().amax(dim=1) / _WEIGHT_STEPS).clamp_min(_TINY)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with _fbgemm(), warnings.catch_warnings():
            # Quantised dtypes are on their way out of torch; its quantised products, which need them, are not yet.
            warnings.filterwarnings("ignore", message=r"(?s).*quantize_per_channel.*deprecated")
            integers = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
            self._packed = torch.ops.quantized.linear_prepack(integers, None)

    def __call__(self, rows: Tensor) -> Tensor:
        """``rows @ weight.T`` [R, O] of ``rows`` [R, I], in their dtype."""
        precise = rows.float()
        largest = precise.abs().amax(dim=1, keepdim=True).clamp_min(_TINY)
        # The operator knows one scale for all rows, so every row is brought to the same range first.
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            precise / largest, 1.0 / _ACTIVATION_STEPS, _ZERO, self._packed
        )
        return product.mul_(largest).to(rows.dtype)

    def numel(self) -> int:
        """Number of weights."""
        return self.shape.numel()


def int8_unavailable(device: torch.device) -> str | None:
    """Why a model on ``device`` cannot multiply in int8 and has to stay in float; ``None`` if it can."""
    return _unavailable_on_cpu() if device.type == "cpu" else f"Int8 products are for CPUs; the model is on '{device}'."


@cache
def _unavailable_on_cpu() -> str | None:
    """Found out by trying, once."""
    weight = torch.tensor([[64.0, -3.0], [0.0, 0.5]])
    try:
        product = Int8Weight(weight)(torch.tensor([[-2.0, 2.0]]))
    except (RuntimeError, AttributeError, NotImplementedError) as error:
        return f"This build of torch has no int8 products for this CPU: {str(error).splitlines()[0]}"
    if not torch.allclose(product, torch.tensor([[-134.0, 1.0]]), rtol=1e-5):
        return f"This build of torch gets int8 products wrong on this CPU: {product.tolist()}."
    return None


@contextmanager
def _fbgemm() -> Iterator[None]:
    """Pack for FBGEMM, whose products depend on nothing but their operands; the default may be another engine."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        yield
    finally:
        torch.backends.quantized.engine = before

"""Counter-based random numbers: a draw depends on (seed, position, step) and nothing else.

So a request draws the same numbers alone, in any batch, on any device. The mixing is that of SplitMix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

from torch import Tensor

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MIX_1 = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_MIX_2 = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB


def uniform(seed: Tensor, position: Tensor, step: Tensor) -> Tensor:
    """Numbers in [0, 1), float64, one for each element of the three int64 tensors of equal shape."""
    bits = _mix(_mix(_mix(seed) + position) + step)
    return _shift_right(bits, 11).double() * 2.0**-53


def _mix(value: Tensor) -> Tensor:
    """SplitMix64's finaliser; int64 arithmetic wraps around as unsigned arithmetic does."""
    value = value + _GOLDEN
    value = (value ^ _shift_right(value, 30)) * _MIX_1
    value = (value ^ _shift_right(value, 27)) * _MIX_2
    return value ^ _shift_right(value, 31)


def _shift_right(value: Tensor, bits: int) -> Tensor:
    """Logical shift, which torch lacks for signed numbers."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)

"""Counter-based random numbers: a draw depends on (seed, position, step, stream) and nothing else.

So a request draws the same numbers alone, in any batch, on any device. The mixing is that of SplitMix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

# Streams of draws that must not repeat each other, told apart by what is mixed into the seed.
TOKEN = 0
CHANCE = 0x2545F4914F6CDD1D
NOISE = 0x369DEA0F31A53F85

_GOLDEN = -0x61C8864680B583EB  # 0x9E3779B97F4A7C15 as a signed 64-bit number
_MIX_1 = -0x40A7B892E31B1A47  # 0xBF58476D1CE4E5B9
_MIX_2 = -0x6B2FB644ECCEEE15  # 0x94D049BB133111EB

_BITS = 53  # of a float64's fraction


def uniform(seed: Tensor, position: Tensor, step: Tensor, stream: int = TOKEN) -> Tensor:
    """Numbers in [0, 1), float64, one for each element of the three int64 tensors of equal shape."""
    return _bits(seed, position, step, stream).double() * 2.0**-_BITS  # type: ignore[no-any-return]


def uniform_array(seed: int, position: NDArray[np.int64], step: int, stream: int) -> NDArray[np.float64]:
    """The same numbers in numpy, for one request: one for each ``position``."""
    bits = _bits(np.full_like(position, seed), position, step, stream)
    return bits.astype(np.float64) * 2.0**-_BITS  # type: ignore[no-any-return]


def _bits(seed: Any, position: Any, step: Any, stream: int) -> Any:
    return _shift_right(_mix(_mix(_mix(seed ^ stream) + position) + step), 64 - _BITS)


def _mix(value: Any) -> Any:
    """SplitMix64's finaliser; int64 arithmetic wraps around as unsigned arithmetic does."""
    value = value + _GOLDEN
    value = (value ^ _shift_right(value, 30)) * _MIX_1
    value = (value ^ _shift_right(value, 27)) * _MIX_2
    return value ^ _shift_right(value, 31)


def _shift_right(value: Any, bits: int) -> Any:
    """Logical shift, which neither torch nor numpy has for signed numbers."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)

"""Times and sizes as people write them: ``5m``, ``8GiB``, ``80%``."""

from __future__ import annotations

import math
import re
from typing import Any

from pydantic_core import PydanticCustomError

from unmask.gateway.config.budget import MemoryBudget

_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_TIME = re.compile(rf"({_NUMBER})(ms|s|m|h|d)", re.ASCII)
_TIMES = re.compile(rf"(?:{_TIME.pattern})+", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MOST_SECONDS = 366 * 86400.0
_LONGEST_LOAD = 86400.0
_SIZE = re.compile(rf"({_NUMBER}) ?([kKMGT]i?B)", re.ASCII)
_SHARE = re.compile(rf"({_NUMBER}) ?%", re.ASCII)
_MOST_BYTES = 2**60


def idle_time(value: Any) -> float | None:
    """Seconds without users after which a model goes; infinity for -1, None for None."""
    if value is None:
        return None
    if _is_number(value) and value == -1:
        return math.inf
    seconds = _seconds(value)
    if seconds is None or not 0 <= seconds <= _MOST_SECONDS:
        words = "it must be seconds, a time like '5m' or '1h30m', 0 for at once, or -1 for never"
        raise PydanticCustomError("time", words)
    return seconds


def load_time(value: Any) -> float | None:
    """Seconds that loading may take; None for None."""
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is None or not 0 < seconds <= _LONGEST_LOAD:
        raise PydanticCustomError("time", "it must be seconds above 0, or a time like '5m', of at most a day")
    return seconds


def budget(value: Any) -> MemoryBudget | None:
    """The budget that ``value`` means; None for None."""
    if value is None:
        return None
    if _is_number(value) and isinstance(value, int) and 0 < value <= _MOST_BYTES:
        return MemoryBudget(amount=value)
    if isinstance(value, str) and (found := _SHARE.fullmatch(value)) and 0 < (share := float(found[1]) / 100) <= 1:
        return MemoryBudget(share=share)
    if isinstance(value, str) and (amount := _size(value)):
        return MemoryBudget(amount=amount)
    raise PydanticCustomError("memory", "it must be bytes, a size like '8GiB', or a share like '80%'")


def size(value: Any) -> int | None:
    """The bytes that ``value`` means; None for None."""
    if value is None:
        return None
    amount = value if _is_number(value) and isinstance(value, int) else _size(str(value))
    if amount is None or not 0 <= amount <= _MOST_BYTES:
        raise PydanticCustomError("size", "it must be bytes, or a size like '8GiB'")
    return amount


def _size(text: str) -> int | None:
    """The bytes of a size with its unit; None if it is none, or too large."""
    if (found := _SIZE.fullmatch(text)) is None:
        return None
    amount = int(float(found[1]) * (1024 if "i" in found[2] else 1000) ** ("KMGT".index(found[2][0].upper()) + 1))
    return amount if amount <= _MOST_BYTES else None


def _seconds(value: Any) -> float | None:
    if isinstance(value, str) and _TIMES.fullmatch(value):
        return sum(float(number) * _SECONDS[unit] for number, unit in _TIME.findall(value))
    return float(value) if _is_number(value) and abs(value) < _MOST_BYTES else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

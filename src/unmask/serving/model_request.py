"""``model`` and ``keep_alive``: which model a request is for, and for how long it shall stay without users."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from unmask.serving.wire import WireModel

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_CENTURY = 100 * 365.25 * 86400
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)")
_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+)")


def check_keep_alive(value: Any) -> Any:
    """A number of seconds, or a duration such as "5m". Raises ``PydanticCustomError`` for anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = isinstance(value, str) and len(value) <= 64 and _DURATION.fullmatch(value) is not None
    if value is None or number or text:
        return value
    raise PydanticCustomError("duration", 'it must be a number of seconds, or a duration such as "5m"')


class ModelRequest(WireModel):
    """A body that is for a model; None for the only one."""

    foreign_names: ClassVar[dict[str, str]] = {"ttl": "keep_alive"}

    model: str | None = None
    keep_alive: Annotated[Any, AfterValidator(check_keep_alive)] = None


def seconds(value: float | str) -> float | None:
    """For how long a model stays without users, 0: not at all, None: for ever, as less than nothing means.

    ``value`` is as ``check_keep_alive`` has it. Centuries are for ever too.
    """
    told = _duration(value) if isinstance(value, str) else value
    return None if told < 0 or told > _CENTURY else told


def _duration(text: str) -> float:
    sign = -1 if text.startswith("-") else 1
    return sign * sum(float(count) * _SECONDS[unit] for count, unit in _PART.findall(text))

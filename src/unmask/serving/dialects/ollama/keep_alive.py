"""``keep_alive``: for how long clients would have the model stay. It stays as long as the server runs."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import PydanticCustomError

_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+)")


def check_keep_alive(value: Any) -> Any:
    """A number of seconds, or a duration such as "5m". Raises ``PydanticCustomError`` for anything else."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = isinstance(value, str) and len(value) <= 64 and _DURATION.fullmatch(value) is not None
    if value is None or number or text:
        return value
    raise PydanticCustomError("duration", 'it must be a number of seconds, or a duration such as "5m"')


def unloads(value: float | str | None) -> bool:
    """Whether ``value`` means: not at all."""
    return value is not None and re.search("[1-9]", str(value)) is None

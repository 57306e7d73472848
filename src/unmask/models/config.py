"""Reading values out of a ``config.json`` that may hold anything."""

from __future__ import annotations

import math
from typing import Any

from unmask.errors import InvalidCheckpointError

_LARGEST = 2**31


def integer(config: dict[str, Any], key: str, default: int | None = None, *, file: str = "config.json") -> int:
    """A positive integer; ``default`` where the key is absent or null."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < _LARGEST:
        raise InvalidCheckpointError(f"{file}: '{key}' is {value!r}, not a positive integer.")
    return value


def number(config: dict[str, Any], key: str, default: float, *, file: str = "config.json") -> float:
    """A positive number; ``default`` where the key is absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidCheckpointError(f"{file}: '{key}' is {value!r}, not a positive number.")
    return float(value)


def token_ids(*values: Any) -> tuple[int, ...]:
    """The ids in ``values`` (each an id, a list of ids, or null), without repetition, in order."""
    ids = [index for value in values for index in (value if isinstance(value, list) else [value])]
    return tuple(dict.fromkeys(index for index in ids if isinstance(index, int) and not isinstance(index, bool)))


def refuse_other_values(config: dict[str, Any], assumed: dict[str, Any], *, file: str = "config.json") -> None:
    """Raise ``InvalidCheckpointError`` if a key is present with another value than the implemented one."""
    for key, value in assumed.items():
        if config.get(key) is not None and config[key] != value:
            raise InvalidCheckpointError(
                f"{file}: '{key}' is {config[key]!r}; Unmask implements {value!r} only.",
                hint="Serving this checkpoint needs something that Unmask does not have.",
            )

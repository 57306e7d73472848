"""Reading values out of a ``config.json`` that may hold anything."""

from __future__ import annotations

import sys
from typing import Any

from unmask.errors import InvalidCheckpointError

_LARGEST = 2**31
_MOST_LAYERS = 1024
_HINT = "Is it the file that came with the weights?"


def integer(
    config: dict[str, Any], key: str, default: int | None = None, *, least: int = 1, file: str = "config.json"
) -> int:
    """An integer from ``least`` on; ``default`` where the key is absent or null."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _LARGEST:
        kind = {0: "an integer from 0 on", 1: "a positive integer"}[least]
        raise InvalidCheckpointError(f"{file}: '{key}' is {value!r}, not {kind}.", hint=_HINT)
    return value


def layer_count(config: dict[str, Any], key: str, *, file: str = "config.json") -> int:
    """A number of layers, bounded: tables of as many entries are made of it."""
    count = integer(config, key, file=file)
    if count > _MOST_LAYERS:
        raise InvalidCheckpointError(f"{file}: '{key}' is {count}, above {_MOST_LAYERS}.", hint=_HINT)
    return count


def number(config: dict[str, Any], key: str, default: float, *, file: str = "config.json") -> float:
    """A positive number; ``default`` where the key is absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < sys.float_info.max:
        raise InvalidCheckpointError(f"{file}: '{key}' is {value!r}, not a positive number.", hint=_HINT)
    return float(value)


def flag(config: dict[str, Any], key: str, default: bool) -> bool:
    """True or false; ``default`` where the key is absent or null."""
    value = config.get(key)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidCheckpointError(f"config.json: '{key}' is {value!r}, neither true nor false.", hint=_HINT)
    return value


def integers(config: dict[str, Any], key: str) -> list[int]:
    """A list of integers; empty where the key is absent or null."""
    value = config.get(key)
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        raise InvalidCheckpointError(f"config.json: '{key}' is {value!r}, not a list of integers.", hint=_HINT)
    return value


def head_size(config: dict[str, Any], hidden: int, heads: int) -> int:
    """``head_dim``; where it is absent, the heads share the hidden size evenly."""
    if config.get("head_dim") is None and hidden % heads:
        raise InvalidCheckpointError(
            f"config.json: {heads} heads do not share a hidden size of {hidden} evenly.", hint=_HINT
        )
    return integer(config, "head_dim", hidden // heads)


def rope(config: dict[str, Any], theta: float, share: float = 1.0) -> tuple[float, float]:
    """Base and rotating share of a head, from their own keys or, as newer files have it, from ``rope_parameters``.

    ``theta`` and ``share`` are taken where the keys are absent. Raises ``InvalidCheckpointError`` for scaled rotation.
    """
    values = config
    for key in ("rope_scaling", "rope_parameters"):
        nested = config.get(key) or {}
        plain = isinstance(nested, dict) and not any(isinstance(value, dict) for value in nested.values())
        if not plain or nested.get("rope_type", nested.get("type", "default")) != "default":
            raise InvalidCheckpointError(
                f"config.json: '{key}' is {nested!r}; Unmask implements plain rotary embeddings only.",
                hint="Serving this checkpoint needs something that Unmask does not have.",
            )
        values = values | {name: value for name, value in nested.items() if value is not None}
    return number(values, "rope_theta", theta), number(values, "partial_rotary_factor", share)


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

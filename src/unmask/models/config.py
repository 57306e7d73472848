"""Reading values out of a ``config.json`` that may hold anything."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from unmask.errors import InvalidCheckpointError
from unmask.shown import shown

_LARGEST = 2**31
_MOST_LAYERS = 1024


@dataclass(frozen=True, slots=True)
class Config:
    """The ``values`` of a JSON object, or of a GGUF file in the same words; ``file`` names it in messages.

    To the methods that take a default, a key that is null is absent. All of them raise ``InvalidCheckpointError``
    naming file and key.
    """

    values: dict[str, Any]
    file: str

    def get(self, key: str) -> Any:
        """Whatever stands under ``key``; ``None`` if nothing does."""
        return self.values.get(key)

    def fault(self, what: str, hint: str = "Is it the file that came with the weights?") -> InvalidCheckpointError:
        """The error to raise where something is wrong with this file."""
        return InvalidCheckpointError(f"{self.file}: {what}.", hint=hint)

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """An integer from ``least`` on."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _LARGEST:
            kind = {0: "an integer from 0 on", 1: "a positive integer"}[least]
            raise self.fault(f"'{key}' is {shown(value)}, not {kind}")
        return value

    def layer_count(self, key: str) -> int:
        """A number of layers, bounded: tables of as many entries are made of it."""
        count = self.integer(key)
        if count > _MOST_LAYERS:
            raise self.fault(f"'{key}' is {count}, above {_MOST_LAYERS}")
        return count

    def number(self, key: str, default: float | None = None) -> float:
        """A positive number."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < sys.float_info.max:
            raise self.fault(f"'{key}' is {shown(value)}, not a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(f"'{key}' is {shown(value)}, neither true nor false")
        return value

    def integers(self, key: str) -> list[int]:
        """A list of integers; empty where the key is absent."""
        value = self.get(key)
        value = [] if value is None else value
        if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
            raise self.fault(f"'{key}' is {shown(value)}, not a list of integers")
        return value

    def token_ids(self, key: str) -> list[int]:
        """An id, or the ids of a list; none where the key is absent. Items of a list may be null."""
        value = self.get(key)
        ids = [index for index in (value if isinstance(value, list) else [value]) if index is not None]
        if any(isinstance(index, bool) or not isinstance(index, int) for index in ids):
            raise self.fault(f"'{key}' is {shown(value)}, neither a token id nor a list of them")
        return ids

    def object(self, key: str) -> Config:
        """The object under ``key``, which must be there."""
        value = self.get(key)
        if not isinstance(value, dict):
            raise self.fault(f"'{key}' is not an object")
        return Config(value, f"{key} of {self.file}")

    def head_size(self, hidden: int, heads: int) -> int:
        """``head_dim``; where it is absent, the heads share the hidden size evenly."""
        if self.get("head_dim") is None and hidden % heads:
            raise self.fault(f"{heads} heads do not share a hidden size of {hidden} evenly")
        return self.integer("head_dim", hidden // heads)

    def rope(self, theta: float, share: float = 1.0) -> tuple[float, float]:
        """Base and rotating share of a head, from their own keys or, as newer files have it, from ``rope_parameters``.

        ``theta`` and ``share`` are taken where the keys are absent. Scaled rotation is refused.
        """
        values = self.values
        for key in ("rope_scaling", "rope_parameters"):
            nested = self.get(key) or {}
            plain = isinstance(nested, dict) and not any(isinstance(value, dict) for value in nested.values())
            if not plain or nested.get("rope_type", nested.get("type", "default")) != "default":
                raise self._unimplemented(key, "plain rotary embeddings")
            values = values | {name: value for name, value in nested.items() if value is not None}
        said = Config(values, self.file)
        rotating = said.number("partial_rotary_factor", share)
        if rotating > 1:
            raise self.fault(f"'partial_rotary_factor' is {rotating:g}, above 1")
        return said.number("rope_theta", theta), rotating

    def refuse_other_than(self, assumed: dict[str, Any]) -> None:
        """Raise if one of the keys is present with another value than the ``assumed`` one, which is implemented."""
        for key, value in assumed.items():
            if self.get(key) is not None and self.get(key) != value:
                raise self._unimplemented(key, repr(value))

    def _unimplemented(self, key: str, implemented: str) -> InvalidCheckpointError:
        return self.fault(
            f"'{key}' is {shown(self.get(key))}; Unmask implements {implemented} only",
            hint="Serving this checkpoint needs something that Unmask does not have.",
        )

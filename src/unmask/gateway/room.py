"""The room that models share: bytes of memory, and places. What fits, and who would have to go. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from unmask.errors import InsufficientMemoryError
from unmask.gateway.model_state import ModelRecord


class Room:
    """``memory_bytes`` for ``places`` models at once; None is no limit."""

    def __init__(self, memory_bytes: int | None, places: int | None) -> None:
        self._bytes = math.inf if memory_bytes is None else memory_bytes
        self._places = math.inf if places is None else places

    def fits(self, model: ModelRecord, others: Iterable[ModelRecord]) -> bool:
        """Whether ``model`` fits beside ``others``."""
        together = [model, *others]
        return sum(one.size_bytes for one in together) <= self._bytes and len(together) <= self._places

    def leavers(
        self, model: ModelRecord, others: list[ModelRecord], candidates: Iterable[ModelRecord]
    ) -> list[ModelRecord]:
        """Who of ``others`` has to go for ``model`` to fit: the first ``candidates``, but none in vain.

        Nobody, if it would not fit even without all candidates.
        """
        staying = list(others)
        going: list[ModelRecord] = []
        for candidate in candidates:
            if self.fits(model, staying):
                break
            staying.remove(candidate)
            going.append(candidate)
        if not self.fits(model, staying):
            return []
        for candidate in list(going):  # a large one may have made the room of the small ones before it
            if self.fits(model, [*staying, candidate]):
                staying.append(candidate)
                going.remove(candidate)
        return going

    def never_fitting(self, models: Iterable[ModelRecord]) -> dict[str, InsufficientMemoryError]:
        """Why those of ``models`` that can never be loaded cannot: they are too large by themselves, or beside the
        pinned ones, of which the first that fit together stay.
        """
        found: dict[str, InsufficientMemoryError] = {}
        staying: list[ModelRecord] = []
        for model in sorted(models, key=lambda model: not model.pinned):
            if refusal := self.refusal(model, staying):
                found[model.name] = refusal
            elif model.pinned:
                staying.append(model)
        return found

    def refusal(self, model: ModelRecord, pinned: list[ModelRecord]) -> InsufficientMemoryError | None:
        """Why ``model`` can never be loaded: it does not fit beside those that always stay."""
        if self.fits(model, pinned):
            return None
        names = ", ".join(f"'{one.name}'" for one in pinned)
        if 1 + len(pinned) > self._places:
            return InsufficientMemoryError(
                f"Only {self._places:.0f} models may be in memory at once, and {names} always are; none is left for "
                f"'{model.name}'.",
                hint="Allow more models at once, or pin fewer.",
                param="model",
            )
        kept = sum(one.size_bytes for one in pinned)
        less = f", of which {_gib(kept)} are kept for {names}" if pinned else ""
        return InsufficientMemoryError(
            f"Model '{model.name}' needs {_gib(model.size_bytes)} of memory; all models together may take "
            f"{_gib(int(self._bytes))}{less}.",
            hint="Allow models more memory ('memory_budget' of the configuration), or less to this one: a smaller "
            "file, or less context (our own engine: 'kv_tokens', llama.cpp: 'context' and 'slots').",
            param="model",
        )


def _gib(count: int) -> str:
    return f"{count / 2**30:,.3g} GiB" if count < 100 * 2**30 else f"{count / 2**30:,.0f} GiB"

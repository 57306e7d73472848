"""What is told of a model."""

from __future__ import annotations

from collections.abc import Iterator

from unmask.gateway.model_state import ModelState
from unmask.refusal import Refusal
from unmask.serving.entry import Entry
from unmask.serving.house import House
from unmask.serving.operation.wire import ModelTold, WhyNot


def tell_all(house: House) -> Iterator[ModelTold]:
    """All models of ``house``: those that it serves, then those that it was asked to and does not."""
    for entry, state in house.residents():
        yield _tell(house, entry, state)
    for name, refusal in house.refused.items():
        yield ModelTold(name=name, state="refused", why_not=_why(refusal))


def tell(house: House, name: str) -> ModelTold:
    """One that it serves. Raises what ``House.show`` raises."""
    entry, state = house.resident(name)
    return _tell(house, entry, state)


def _tell(house: House, entry: Entry, state: ModelState) -> ModelTold:
    first, *adapters = entry.listings
    holder = house.loaded(entry.name)
    if holder is not None:
        holder.look()
    return ModelTold(
        name=entry.name,
        aliases=list(entry.aliases),
        adapters=[listing.name for listing in adapters],
        state=state.state,
        lane=first.lane,
        paradigm=first.paradigm,
        users=state.users,
        waiting=state.waiting,
        size=state.size_bytes,
        loaded=house.loading(entry.name),
        since=state.since,
        expires_at=state.expires_at,
        keep=state.keep_seconds,
        pinned=entry.stay.pinned,
        failure=state.failure or None,
        retry_at=state.retry_at,
        loads=state.loads,
        load_seconds=round(state.load_seconds, 3),
        pid=holder.pid if holder is not None and holder.alive else None,
        log=None if entry.log is None else str(entry.log),
    )


def _why(refusal: Refusal) -> WhyNot:
    return WhyNot(refusal.code, refusal.message, refusal.remedy)

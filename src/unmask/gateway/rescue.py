"""When an engine does not know an architecture that it advertised: once to another one, or an explanation.

Engines are not tried in turn. Only these words of an engine lead to another: that the architecture is unknown to it.
A second engine that says so ends the matter. What was learnt is remembered, so that the first is not asked again, and
the next load begins with the second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from unmask.errors import NoLaneError, UnknownArchitectureError, UnmaskError
from unmask.gateway.engine_registry import Pin, RegistryFile
from unmask.gateway.lane import Lane
from unmask.gateway.routing import Route, route
from unmask.models.card import ModelCard
from unmask.refusal import Refusal
from unmask.shown import shown

Loaded = TypeVar("Loaded")

_log = structlog.get_logger()


def next_lane(card: ModelCard, lanes: Sequence[Lane], failed: Lane, why: UnmaskError) -> Lane | Refusal:
    """The lane for the model of ``card`` after ``failed`` could not load it because of ``why``, or why there is none.

    It is one of ``lanes`` that serves the architecture as the model's own paradigm, and never ``failed`` again.
    """
    if not isinstance(why, UnknownArchitectureError):
        return Refusal.of(why)
    others = [lane for lane in lanes if lane.name != failed.name]
    found = route(card, others)
    if isinstance(found, Route):
        return found.lane
    message = (
        f"{failed.name} advertises the {card.paradigm} architecture {shown(card.architecture)}, and said as it started "
        f"that it does not know it. {found.message}"
    )
    return Refusal(NoLaneError.code, message, f"Update {failed.name}. {found.remedy}")


def remember(file: RegistryFile, card: ModelCard, failed: Lane, lane: Lane) -> None:
    """That ``failed`` does not know what ``lane`` was asked for in its place, until ``failed`` is another build."""
    if not failed.mark or card.architecture is None:
        return
    pin = Pin(card.paradigm, card.architecture, failed.name, failed.mark, lane.name)
    with file.changing() as changes:
        changes.registry = changes.registry.with_pin(pin)


def _note(file: RegistryFile, card: ModelCard, failed: Lane, lane: Lane) -> None:
    """Remember it if the disk lets us: the model is loaded by then, and serves without it."""
    try:
        remember(file, card, failed, lane)
    except (UnmaskError, OSError) as error:
        _log.warning("rescue not remembered", failed=failed.name, lane=lane.name, reason=str(error))


async def load_or_rescue(
    card: ModelCard, lanes: Sequence[Lane], lane: Lane, load: Callable[[Lane], Awaitable[Loaded]], file: RegistryFile
) -> tuple[Lane, Loaded]:
    """Load the model on ``lane``, or on the one other that advertises it if that does not know its architecture.

    Raises what ``load`` raises, and after the second engine an error that speaks of both.
    """
    try:
        return lane, await load(lane)
    except UnknownArchitectureError as error:
        other = next_lane(card, lanes, lane, error)
        if isinstance(other, Refusal):
            raise other.error() from None
    try:
        loaded = await load(other)
    except UnknownArchitectureError as error:
        _note(file, card, lane, other)
        raise NoLaneError(
            f"Neither {lane.name} nor {other.name} knows the architecture {shown(card.architecture)}, which both "
            f"advertise. {error.message}",
            hint="Update one of them. A third engine, if there is one, has its turn at the next load.",
        ) from None
    # In a thread, since other processes may hold the file; nobody waits for it, so that nothing comes between the model
    # and whoever closes it.
    asyncio.get_running_loop().run_in_executor(None, _note, file, card, lane, other)
    return other, loaded

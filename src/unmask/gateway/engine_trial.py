"""A model loaded on an engine once, and asked for a token: the proof that the two work here."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from unmask.gateway.child import Child
from unmask.gateway.engine import Engine
from unmask.gateway.engine_lanes import engine_lane
from unmask.gateway.engine_plan import plan_for
from unmask.gateway.engine_registry import Registry
from unmask.gateway.plan import ChildPlan
from unmask.gateway.routing import route
from unmask.gateway.run_directory import RunDirectory
from unmask.models.card import inspect_model
from unmask.refusal import Refusal


def try_model(engine: Engine, model: str) -> float:
    """Load ``model`` on ``engine``, and have it write a token; gives the seconds that took.

    Raises the error of its refusal, or of its load.
    """
    card, lane = inspect_model(model), engine_lane(engine)
    found = route(card, [lane], lane.name)
    if isinstance(found, Refusal):
        raise found.error()
    assert card.path is not None
    registry, name = Registry(engines=[engine]), card.name or engine.name
    plan = plan_for(lane, registry, Path(card.path), name, card.paradigm, architecture=card.architecture)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_load_seconds(plan, RunDirectory(Path(folder))))


async def _load_seconds(plan: ChildPlan, directory: RunDirectory) -> float:
    child = await Child.start(plan, directory)
    await child.close()
    assert child.load_seconds is not None
    return child.load_seconds
